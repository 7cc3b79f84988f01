package hosted

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
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
	h.q.W.Header().Set("X-Content-Type-Options", "nosniff")
	ctx, cancel := h.host.Serving(h.q.R.Context())
	defer cancel()
	events := sse.NewWriter(h.q.W, sse.MaxWriteWait)
	if events.Open() != nil || h.q.R.Method == http.MethodHead {
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

// ServeTrace implements guard.Host.
func (h guardHost) ServeTrace(q *endpoints.Request, id string, withoutTexts bool) error {
	var trace *run.Trace
	runner, err := h.host.Runner(q.R.Context())
	if err == nil {
		var st *run.State
		if st, err = runner.Get(q.R.Context(), id); err == nil {
			trace, err = runner.Trace(q.R.Context(), st)
		}
	}
	if err != nil {
		return err
	}
	if withoutTexts {
		trace.WithoutTexts()
	}
	return q.Write(trace)
}

// Asked implements guard.Host.
func (h guardHost) Asked(ctx context.Context, user *engagement.User, agent, id string) (request, task string) {
	runner, err := h.host.Runner(ctx)
	if err != nil {
		return "", ""
	}
	for range run.MaxDepth + 1 {
		st, err := runner.Get(ctx, id)
		if err != nil || st.User.ID != user.ID || st.Review != "" || task == "" && st.Agent != agent {
			return "", task
		}
		trace, err := runner.Trace(ctx, st)
		switch {
		case err != nil:
			return "", task
		case st.Parent == "":
			return trace.Input(), task
		case task == "":
			task = trace.Input()
		}
		id = st.Parent
	}
	return "", task
}
