package respond

import (
	"net/http"
	"strconv"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// problemType is the media type of a problem document.
const problemType = "application/problem+json"

// untyped is the type of a problem that its title describes completely (RFC 9457, section
// 4.2.1).
const untyped = "about:blank"

// WriteProblem responds with a problem document of the type about:blank.
func WriteProblem(w http.ResponseWriter, status int, title, detail string) {
	NewProblem(untyped, title, status, detail).Write(w)
}

// problem is a problem document under construction.
type problem struct {
	status int
	body   []byte // the JSON object without its closing brace
}

// NewProblem returns a Problem with the standard members. kind is the URI of the problem's type.
func NewProblem(kind, title string, status int, detail string) *problem {
	d := &problem{status: status}
	d.body = append(d.body, `{"type":`...)
	d.body = strictjson.AppendString(d.body, kind)
	d.AddString("title", title)
	d.AddInt("status", int64(status))
	d.AddString("detail", detail)
	return d
}

// AddString adds a member. It adds nothing if the value is empty. The name must not need
// escaping in JSON.
func (d *problem) AddString(name, value string) {
	if value != "" {
		d.body = strictjson.AppendString(d.addName(name), value)
	}
}

// AddInt adds a member. The name must not need escaping in JSON.
func (d *problem) AddInt(name string, value int64) {
	d.body = strconv.AppendInt(d.addName(name), value, 10)
}

// AddBool adds a member. The name must not need escaping in JSON.
func (d *problem) AddBool(name string, value bool) {
	d.body = strconv.AppendBool(d.addName(name), value)
}

func (d *problem) addName(name string) []byte {
	return append(append(append(d.body, ',', '"'), name...), '"', ':')
}

// Write sends the document as the response. It must be the last call.
func (d *problem) Write(w http.ResponseWriter) {
	d.body = append(d.body, '}')
	header := w.Header()
	header.Set("Content-Type", problemType)
	header.Set("Content-Length", strconv.Itoa(len(d.body)))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(d.status)
	_, _ = w.Write(d.body) // the client may have disconnected
}
