// Package problem writes error responses as problem documents (RFC 9457,
// application/problem+json). It is the only writer of such responses in this module.
//
// A problem document is a JSON object with the standard members type, title, status and
// detail, and further members of the application. Package problem builds the JSON as bytes and
// writes it in one piece, with a Content-Length and with Cache-Control: no-store.
//
//   - Write is for an error that needs only a status, a title and a detail.
//   - Document is for an error with a type or with further members: create it with New, add
//     members in the order in which they should appear, and call Document.Write.
package problem

import (
	"net/http"
	"strconv"

	"github.com/fairwayhq/fairway/internal/wire"
)

// ContentType is the media type of a problem document.
const ContentType = "application/problem+json"

// untyped is the type of a problem that its title describes completely (RFC 9457, section
// 4.2.1).
const untyped = "about:blank"

// Write responds with a problem document of the type about:blank.
func Write(w http.ResponseWriter, status int, title, detail string) {
	New(untyped, title, status, detail).Write(w)
}

// Document is a problem document under construction.
type Document struct {
	status int
	body   []byte // the JSON object without its closing brace
}

// New returns a document with the standard members. kind is the URI of the problem's type.
func New(kind, title string, status int, detail string) *Document {
	d := &Document{status: status}
	d.body = append(d.body, `{"type":`...)
	d.body = wire.AppendString(d.body, kind)
	d.AddString("title", title)
	d.AddInt("status", int64(status))
	d.AddString("detail", detail)
	return d
}

// AddString adds a member. It adds nothing if the value is empty. The name must not need
// escaping in JSON.
func (d *Document) AddString(name, value string) {
	if value != "" {
		d.body = wire.AppendString(d.addName(name), value)
	}
}

// AddInt adds a member. The name must not need escaping in JSON.
func (d *Document) AddInt(name string, value int64) {
	d.body = strconv.AppendInt(d.addName(name), value, 10)
}

// AddBool adds a member. The name must not need escaping in JSON.
func (d *Document) AddBool(name string, value bool) {
	d.body = strconv.AppendBool(d.addName(name), value)
}

func (d *Document) addName(name string) []byte {
	return append(append(append(d.body, ',', '"'), name...), '"', ':')
}

// Write sends the document as the response. It must be the last call.
func (d *Document) Write(w http.ResponseWriter) {
	d.body = append(d.body, '}')
	header := w.Header()
	header.Set("Content-Type", ContentType)
	header.Set("Content-Length", strconv.Itoa(len(d.body)))
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(d.status)
	_, _ = w.Write(d.body) // the client may have disconnected
}
