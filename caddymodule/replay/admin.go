package replay

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/fairwayhq/fairway/caddymodule/internal/adminapi"
)

func init() {
	adminapi.Register("agents_replay", adminapi.Post("/agents/replay", maxRequest, serveAdmin))
}

// maxRequest is the maximum size of a request to the admin endpoint, in bytes.
const maxRequest = 32 << 20

// serveAdmin responds to POST /agents/replay on Caddy's admin endpoint. The body is a Request, and the response a replay.Report.
func serveAdmin(r *http.Request) (any, error) {
	section, err := adminapi.Running[*Section]()
	if err != nil {
		return nil, err
	}
	var q Request
	switch err := json.NewDecoder(r.Body).Decode(&q); {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, adminapi.Error(http.StatusRequestEntityTooLarge, "the documents have more than %d bytes", maxRequest)
	case err != nil:
		return nil, invalid("the body must be a JSON object: %w", err)
	}
	return section.Run(r.Context(), section.guards.Handlers, &q)
}
