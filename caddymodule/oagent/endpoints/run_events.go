package endpoints

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/sse"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// keepAlive is how often a comment is sent on a stream without events, so that proxies do not close
// the connection.
const keepAlive = 15 * time.Second

// stream sends the progress of a run as an event stream: the event "state" has the same JSON as the
// response without a stream, "text" has a piece of what the model writes, and the number of the
// message that it belongs to. After "restart", the pieces of that message begin again. The stream ends with the run.
func (h *runRequest) stream(st *run.State) {
	h.q.w.Header().Set("X-Content-Type-Options", "nosniff")
	ctx, cancel := h.q.options.Host.Serving(h.q.r.Context())
	defer cancel()
	events := sse.NewWriter(h.q.w, sse.MaxWriteWait)
	if events.Open() != nil || h.q.r.Method == http.MethodHead {
		return
	}
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { events.KeepAlive(ctx, keepAlive) })
	err := h.runner.Follow(ctx, st.ID, func(e run.Event) error {
		if e.Restart {
			return events.Write("restart", "", append(strconv.AppendInt([]byte(`{"turn":`), int64(e.Turn), 10), '}'))
		}
		if e.State == nil {
			data := strictjson.AppendString([]byte(`{"text":`), e.Text)
			data = strconv.AppendInt(append(data, `,"turn":`...), int64(e.Turn), 10)
			return events.Write("text", "", append(data, '}'))
		}
		state, err := json.Marshal(h.view(ctx, e.State), json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return err
		}
		return events.Write("state", "", state)
	})
	// An error is that of a client that has gone, or of the store. Both end the stream. Without one, the run has ended, or
	// the server stops: then the client follows the run on another node.
	if err == nil && ctx.Err() != nil {
		_ = events.Retry()
	}
}

// writeTrace responds with what the hosted agent of an Engagement did. Only its user and auditors get it. The user does
// not get texts of the model that the output guardrail has not checked.
func (q engagementRequest) writeTrace(e *engagement.Summary) {
	st, ok := (&runRequest{q: q.request}).lookUp(e.ID)
	if !ok || st.Agent != e.Agent || !q.isAuditor() && !st.IsOf(q.user.ID) {
		q.notFound()
		return
	}
	runner, err := q.options.Host.Runner(q.r.Context())
	if err != nil {
		q.fail(err)
		return
	}
	trace, err := runner.Trace(q.r.Context(), st)
	if err != nil {
		q.fail(err)
		return
	}
	if !q.isAuditor() && q.hidesCalls(e) {
		trace.WithoutTexts()
	}
	q.write(trace)
}
