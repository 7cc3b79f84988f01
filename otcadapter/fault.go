package otcadapter

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// A fault is an answer to a request that is wrong in itself, or that comes too
// early: no tool has run.
type fault struct {
	status    int
	message   string // for the user and the model
	developer string // what exactly is wrong and what to do

	header, value string // one more header of the answer, "" if there is none
}

func (f *fault) write(w http.ResponseWriter) {
	answer := buffer.Get()
	defer buffer.Put(answer)
	b := append(answer.B, `{"$schema":"`+schemaURI+`","message":`...)
	b = wire.AppendString(b, f.message)
	b = append(b, `,"developer_message":`...)
	b = wire.AppendString(b, f.developer)
	answer.B = append(b, '}')
	if f.header != "" {
		w.Header().Set(f.header, f.value)
	}
	writeAnswer(w, f.status, answer.B)
}

func noEndpoint(endpoint string) *fault {
	return &fault{
		status:    http.StatusNotFound,
		message:   "there is no such endpoint",
		developer: "no endpoint " + quoted(endpoint) + " stands below the base path; there are GET /health, GET /tools and POST /call",
	}
}

func wrongMethod(method, endpoint, allow string) *fault {
	return &fault{
		status:    http.StatusMethodNotAllowed,
		message:   "this endpoint does not take that method",
		developer: "send " + allow + " to " + endpoint + ", not " + quoted(method),
		header:    "Allow",
		value:     allow,
	}
}

func notLoaded(wait time.Duration) *fault {
	seconds := strconv.FormatInt(int64(max((wait+time.Second-1)/time.Second, 1)), 10)
	return &fault{
		status:    http.StatusServiceUnavailable,
		message:   "the tools are not available yet",
		developer: "the document that describes the tools has not been loaded yet; try again in " + seconds + " s",
		header:    "Retry-After",
		value:     seconds,
	}
}

func wrongContent(header, got, want string) *fault {
	f := &fault{
		status:    http.StatusUnsupportedMediaType,
		message:   "the request body has an unsupported form",
		developer: "send the body with " + header + ": " + want + ", not " + quoted(got),
	}
	if header == "Content-Encoding" {
		f.header, f.value = "Accept-Encoding", want
	}
	return f
}

func tooLarge(limit int64) *fault {
	return &fault{
		status:    http.StatusRequestEntityTooLarge,
		message:   "the request body is too large",
		developer: "the body of a call may have " + strconv.FormatInt(limit, 10) + " bytes at most; send less input",
	}
}

func badRequest(developer string) *fault {
	return &fault{status: http.StatusBadRequest, message: "the request is not a tool call", developer: developer}
}

func unknownTool(failure *ocp.Failure) *fault {
	return &fault{status: http.StatusBadRequest, message: failure.Message, developer: "GET /tools lists the ids of the tools there are"}
}

// quoted quotes text of the client for a message, shortened.
func quoted(text string) string {
	const longest = 128 // bytes
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return strconv.Quote(text)
}
