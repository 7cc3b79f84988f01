package task

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// PollInterval is how long clients are advised to wait between two requests for a task.
const PollInterval = time.Second

// maxMessage is the maximum length of a statusMessage, in bytes.
const maxMessage = 1 << 10

// metaRelated is the member of _meta that names the task of a message (MCP 2025-11-25, Tasks, Related
// Task Metadata).
const metaRelated = "io.modelcontextprotocol/related-task"

// AppendTask appends the members of a task without its result. Extension selects the form of the
// extension of 2026-07-28 instead of that of 2025-11-25.
func (r *Record) AppendTask(dst []byte, extension bool) []byte {
	status := r.Status
	if !extension && status == Completed && r.IsError {
		status = Failed // 2025-11-25, Tasks, Task Status
	}
	dst = strictjson.AppendString(append(dst, `"taskId":`...), r.ID)
	dst = strictjson.AppendString(append(dst, `,"status":`...), string(status))
	if r.Message != "" {
		dst = strictjson.AppendString(append(dst, `,"statusMessage":`...), text.Cut(r.Message, maxMessage))
	}
	dst = appendTime(append(dst, `,"createdAt":`...), r.Created)
	dst = appendTime(append(dst, `,"lastUpdatedAt":`...), r.Updated)
	ttl, interval := `,"ttl":`, `,"pollInterval":`
	if extension {
		ttl, interval = `,"ttlMs":`, `,"pollIntervalMs":`
	}
	dst = strconv.AppendInt(append(dst, ttl...), r.Expires.Sub(r.Created).Milliseconds(), 10)
	return strconv.AppendInt(append(dst, interval...), r.interval().Milliseconds(), 10)
}

// AppendDetails appends the members of a task of the extension with its result, its error, or the
// requests to the client.
func (r *Record) AppendDetails(dst []byte) []byte {
	dst = r.AppendTask(dst, true)
	switch r.Status {
	case Completed:
		dst = append(append(dst, `,"result":`...), r.Result...)
	case Failed:
		dst = append(append(dst, `,"error":`...), r.Error...)
	case InputRequired:
		dst = append(append(dst, `,"inputRequests":`...), r.Requests...)
	}
	return dst
}

// interval returns how long the client should wait until it asks again.
func (r *Record) interval() time.Duration {
	if r.Status != Working || r.Lease.Token != "" {
		return PollInterval
	}
	return max(PollInterval, time.Until(r.Lease.Until).Truncate(time.Millisecond))
}

func appendTime(dst []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(dst, '"'), "2006-01-02T15:04:05.000Z07:00"), '"')
}

// AppendRelated appends the member of _meta that names the task.
func (r *Record) AppendRelated(dst []byte) []byte {
	dst = strictjson.AppendString(append(dst, `"`+metaRelated+`":{"taskId":`...), r.ID)
	return append(dst, '}')
}

// RelatedResult returns the members of the result, without braces, with the name of the task in their
// _meta.
func (r *Record) RelatedResult() []byte {
	b := r.AppendRelated([]byte(`"_meta":{`))
	for walk := strictjson.Into(strictjson.MemberOf(r.Result, "_meta")); walk.Next(); {
		b = append(append(append(append(b, ','), walk.Name...), ':'), walk.Value...)
	}
	b = append(b, '}')
	for walk := strictjson.Into(r.Result); walk.Next(); {
		if !walk.Is("_meta") {
			b = append(append(append(append(b, ','), walk.Name...), ':'), walk.Value...)
		}
	}
	return b
}

// Keys of requests are unique over the lifetime of a task, although an API may use one again in a later
// round (SEP-2663, Task Update Requests). So each has the number of its round as prefix.

// Ask sets the requests that the client must respond to.
func (r *Record) Ask(requests jsontext.Value, state string) {
	r.Status, r.Message = InputRequired, "input is needed to go on"
	r.Inputs.ask(requests, state)
}

func (in *Inputs) ask(requests jsontext.Value, state string) {
	in.Round++
	in.State, in.Responses = state, nil
	b := []byte{'{'}
	for walk := strictjson.Into(requests); walk.Next(); {
		b = strictjson.AppendString(strictjson.Comma(b), in.keyPrefix()+strictjson.Text(walk.Name))
		b = append(append(b, ':'), walk.Value...)
	}
	in.Requests = append(b, '}')
}

func (in *Inputs) keyPrefix() string { return strconv.Itoa(in.Round) + "." }

// Respond takes the client's responses to requests that are outstanding, and ignores others. It returns
// false if it took none. If all requests have a response, the call goes on.
func (r *Record) Respond(responses jsontext.Value) bool {
	if r.Status != InputRequired || !r.Inputs.respond(responses) {
		return false
	}
	if len(r.Requests) == len("{}") {
		r.Status, r.Message, r.Requests, r.Lease.Until = Working, "", nil, time.Now()
	}
	return true
}

func (in *Inputs) respond(responses jsontext.Value) (taken bool) {
	added := bytes.TrimSuffix(in.Responses, []byte("}"))
	if len(added) == 0 {
		added = []byte{'{'}
	}
	for walk := strictjson.Into(responses); walk.Next(); {
		name := strictjson.Text(walk.Name)
		key, ours := strings.CutPrefix(name, in.keyPrefix())
		if !ours || strictjson.MemberOf(in.Requests, name) == nil {
			continue
		}
		taken = true
		added = append(append(strictjson.AppendString(strictjson.Comma(added), key), ':'), walk.Value...)
		rest := strictjson.AppendWithout([]byte{'{'}, in.Requests, func(w *strictjson.Walk) bool { return strictjson.Text(w.Name) == name })
		in.Requests = append(rest, '}')
	}
	if taken {
		in.Responses = append(added, '}')
	}
	return taken
}
