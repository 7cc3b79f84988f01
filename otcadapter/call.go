package otcadapter

import (
	"context"
	"mime"
	"net/http"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/conceal"
	"github.com/fairwayhq/fairway/ocp"
)

// A call is a parsed request for a call, with everything needed to run it.
type call struct {
	callRequest
	form              *standard
	developerMessages bool
	kit               *toolkit
	tool              *entry   // nil if the toolkit has no such tool
	name              string   // name of the tool in the client's request
	keyHeaders        []string // see catalog
	grant             grant
	caller            ocp.Caller
	secrets           func() *conceal.Secrets // the credentials that came with the call; nil if there are none
	maxRecorded       int                     // maximum size of a recorded response in bytes; 0 if responses are not recorded
}

// headerExposes is the response header with what the calling agent exposes (see ocp.Result).
const headerExposes = "OAgent-Exposes"

// A reply is a response without its body.
type reply struct {
	status        int
	header, value string // a further header; name is "" if there is none
	filename      string // filename of the value; "" if the API sent none

	// again says that the same call may run once more, because it had no effect or is
	// idempotent.
	again bool

	// secret says that the response repeats credentials of the call, so that it must
	// not be recorded. It is only set for calls that are recorded.
	secret bool
}

// serveCall handles POST /call and POST /tools/call.
func (s *Server) serveCall(w http.ResponseWriter, r *http.Request, catalog *catalog, form *standard, site Site) {
	request, f := s.readCall(r)
	if f != nil {
		s.refuse(w, f, form)
		return
	}
	kit, tool, ref, f := catalog.resolve(request.toolID)
	if f != nil {
		s.refuse(w, f, form)
		return
	}
	c := &call{callRequest: request, form: form, developerMessages: s.options.DeveloperMessages, kit: kit, tool: tool, name: ref.tool, keyHeaders: catalog.keyHeaders}
	if tool != nil {
		if c.grant, f = kit.authorize(tool, &c.context, r, site.Access); f != nil {
			asked := Asked{CallID: c.callID, TraceID: c.traceID, UserID: c.context.userID}
			ocp.RecordCall(site.Caller(kit.index, asked), tool.Tool, string(ocp.Unauthorized))
			s.refuse(w, f, form)
			return
		}
	}
	asked := Asked{CallID: c.callID, TraceID: c.traceID, UserID: c.context.userID}
	if c.secrets = c.callerSecrets(r); c.secrets != nil {
		asked.Conceal = c.conceal
	}
	c.caller = site.Caller(kit.index, asked)
	ctx := r.Context()
	if c.grant.supplement != nil {
		ctx = ocp.ContextWithSupplement(ctx, c.grant.supplement)
	}
	if s.records != nil && c.named && tool != nil {
		s.serveOnce(ctx, w, r, c, site.User)
		return
	}
	answer := buffer.Get()
	defer buffer.Put(answer)
	var rep reply
	answer.B, rep = c.run(ctx, answer.B)
	rep.write(w, answer.B)
}

// write writes the response.
func (r *reply) write(w http.ResponseWriter, answer []byte) {
	if r.header != "" && r.value != "" {
		w.Header().Set(r.header, r.value)
	}
	if r.filename != "" {
		w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": r.filename}))
	}
	writeAnswer(w, r.status, answer)
}

// conceal removes the credentials that came with the call from a text.
func (c *call) conceal(text string) string {
	if c.secrets == nil {
		return text
	}
	return c.secrets().Conceal(text)
}

// run calls the tool and appends the response.
func (c *call) run(ctx context.Context, b []byte) ([]byte, reply) {
	outcome := c.caller.Call(ctx, c.name, c.input)
	defer outcome.Release()
	start := len(b)
	b, rep := c.respond(b, &outcome)
	rep.secret = c.repeatsCredentials(outcome.Result, b[start:])
	return b, rep
}

// respond appends the response to a call that has returned.
func (c *call) respond(b []byte, outcome *ocp.Outcome) ([]byte, reply) {
	failure := outcome.Failure
	if failure != nil {
		failure.Message = c.conceal(failure.Message)
	}
	switch {
	case failure == nil:
	case failure.Kind == ocp.UnknownTool:
		return c.refused(b, unknownTool(failure))
	case failure.Kind == ocp.InvalidArguments && c.form.oxp:
		return c.refused(b, invalidInput(failure))
	case failure.Kind == ocp.Refused && failure.Status == http.StatusUnauthorized && c.grant.byCaller():
		return c.refused(b, badCredentials(outcome, c))
	}
	rep := reply{status: http.StatusOK, again: mayRunAgain(outcome)}
	if outcome.Result != nil {
		// The schemas of the standards do not allow it in the body.
		rep.header, rep.value = headerExposes, outcome.Result.Exposed
		rep.filename = outcome.Result.Filename()
	}
	return c.appendAnswer(b, outcome), rep
}

// refused appends the response to a call that did not run.
func (c *call) refused(b []byte, f *fault) ([]byte, reply) {
	rep := reply{status: f.status, header: f.header, value: f.value, again: true}
	return f.append(b, c.form, c.developerMessages), rep
}

// mayRunAgain reports whether the same call may run once more.
func mayRunAgain(outcome *ocp.Outcome) bool {
	failure := outcome.Failure
	return failure != nil && (failure.Kind == ocp.InvalidArguments || failure.Retryable(outcome.Tool))
}
