package agents

import (
	"net/http"
	"strconv"

	"github.com/fairwayhq/fairway/internal/wire"
)

// WriteProblem writes a problem document (RFC 9457) as the response. The response must not be
// cached.
func WriteProblem(w http.ResponseWriter, status int, title, detail string) {
	body := append([]byte(nil), `{"type":"about:blank","title":`...)
	body = wire.AppendString(body, title)
	body = append(body, `,"status":`...)
	body = strconv.AppendInt(body, int64(status), 10)
	body = append(body, `,"detail":`...)
	body = append(wire.AppendString(body, detail), '}')

	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have disconnected
}
