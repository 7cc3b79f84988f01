package route

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/logonly"
	"github.com/fairwayhq/fairway/tools/result"
)

// Inspectors of a toolset get the arguments of a call before anything else does (Caller.call), and the response where it
// arrives: in the Recorder, when the handlers after oagent have returned. Nothing of this file runs for toolsets without
// inspectors.

// An Inspection applies the inspectors of a toolset to one request to the API.
type Inspection struct {
	Chain    inspect.Chain
	Tool     *tools.Tool
	Toolset  string
	Protocol string
	Agent    string
	User     string
	Limit    int64 // bytes of a decoded response
	Logger   *zap.Logger
	Purpose  tools.Purpose // "" for a result

	LogOnly inspect.Chain // inspectors that are not enforced
	Would   logonly.Would // what the first of them would have done

	done   bool // the response was inspected
	events bool // the response was a stream
}

// message returns a message without a body.
func (i *Inspection) message(phase inspect.Phase) inspect.Message {
	m := inspect.Message{Phase: phase, Toolset: i.Toolset, Protocol: i.Protocol, Agent: i.Agent, User: i.User}
	if i.Tool != nil {
		m.Tool = i.Tool.Name
	}
	return m
}

// inspect applies the inspectors to a message, and logs what they found. The log never has the values.
func (i *Inspection) inspect(ctx context.Context, m inspect.Message) (body []byte, labels []string, err error) {
	body, labels, err = i.Chain.Inspect(ctx, m)
	passed := m
	passed.Body = body
	review, ok := errors.AsType[*inspect.ReviewError](err)
	if ok {
		labels, passed.Body = review.Masked, review.Body
	}
	if ok || err == nil {
		i.try(ctx, passed)
	}
	fields := []zap.Field{zap.String("toolset", m.Toolset), zap.String("tool", m.Tool), zap.String("phase", string(m.Phase))}
	if rejection, ok := errors.AsType[*inspect.RejectedError](err); ok {
		i.Logger.Warn("an inspector rejected a tool call", append(fields, zap.String("inspector", rejection.Inspector),
			zap.Strings("found", rejection.Labels), zap.String("reason", rejection.Reason))...)
	} else if len(labels) > 0 {
		i.Logger.Info("an inspector masked values of a tool call", append(fields, zap.Strings("found", labels))...)
	}
	return body, labels, err
}

// CheckArguments inspects arguments that cannot be changed any more: those of a plain request.
func (i *Inspection) CheckArguments(ctx context.Context, arguments []byte) error {
	m := i.message(inspect.Arguments)
	m.Body, m.JSON = arguments, true
	passed, labels, err := i.inspect(ctx, m)
	review, ok := errors.AsType[*inspect.ReviewError](err)
	if ok {
		passed, labels = review.Body, review.Masked
	}
	if (ok || err == nil) && !bytes.Equal(passed, arguments) {
		err = &inspect.RejectedError{Inspector: "of the toolset", Labels: labels}
	}
	return err
}

// rejectedKey is the context key of the Failure of a call whose arguments were rejected.
type rejectedKey struct{}

// arguments returns the arguments that the inspectors pass. If they reject them, the context has the Failure. If they require
// a review, it has the ReviewError, for oagent.
func (i *Inspection) arguments(ctx context.Context, name string, arguments []byte) (context.Context, []byte) {
	passed, review, failure := i.Arguments(ctx, name, arguments)
	switch {
	case review != nil:
		return context.WithValue(ctx, reviewKey{}, review), passed
	case failure == nil:
		return ctx, passed
	}
	return context.WithValue(ctx, rejectedKey{}, failure), []byte("{}")
}

// reviewKey is the context key of the ReviewError of a call.
type reviewKey struct{}

// ReviewOf returns what the inspectors of the arguments of a call require, or nil. A handler that gets the call must enforce it.
func ReviewOf(ctx context.Context) *inspect.ReviewError {
	review, _ := ctx.Value(reviewKey{}).(*inspect.ReviewError)
	return review
}

// WithReview returns the context of a call that needs a review because of an earlier inspection, even if the inspectors now pass
// its arguments. shown are the arguments for logs.
func WithReview(ctx context.Context, shown []byte) context.Context {
	return context.WithValue(ctx, reviewKey{}, &inspect.ReviewError{Shown: shown, Required: []inspect.Required{{Inspector: "of the toolset"}}})
}

// withoutReview returns the context of the further requests of a call that was reviewed.
func withoutReview(ctx context.Context) context.Context {
	return context.WithValue(ctx, reviewKey{}, nil)
}

// shownArguments returns the arguments of a call for logs.
func shownArguments(ctx context.Context, arguments []byte) []byte {
	if review := ReviewOf(ctx); review != nil {
		return review.Shown
	}
	return arguments
}

// hideValues removes the values of arguments that need a review from the outcome, because logs have the message.
func hideValues(ctx context.Context, name string, outcome *tools.Outcome) {
	if f := outcome.Failure; f != nil && f.Kind == tools.InvalidArguments && ReviewOf(ctx) != nil {
		outcome.Failure = &tools.Failure{Kind: f.Kind, Message: "The arguments of " + text.Cut(name, maxNamed) +
			" are not valid for its schema. The reason is not shown, because an inspector requires a review of them."}
	}
}

// checkReviewed returns a failure if the request of a call that needs a review would not pass an oagent handler.
func (i *Inspection) checkReviewed(review *inspect.ReviewError, routes *siteroutes.Endpoint, r *http.Request) error {
	if routes == nil || routes.Reaches(r) {
		return nil
	}
	i.Logger.Error("tool call not sent: an inspector requires a review of its arguments, and it would not pass an oagent handler, which has the reviews; "+
		"add oagent after the endpoint, or let the inspector mask or reject",
		zap.String("tool", i.Tool.Name), zap.String("toolset", i.Toolset), zap.String("inspector", review.Required[0].Inspector))
	return &tools.Failure{Kind: tools.Restricted, Message: "The API was not called: " + review.Error() + ", which is only possible for calls that oagent guards, and this one is not. The operator must change the configuration."}
}

// withoutArguments returns the headers of a client without the headers and cookies that are arguments of the tool: the API must only get
// the arguments that the inspectors have passed.
func withoutArguments(header http.Header, t *tools.Tool) http.Header {
	arguments := t.RuleArguments()
	if !slices.ContainsFunc(arguments, func(a tools.Argument) bool { return a.In == tools.InHeader || a.In == tools.InCookie }) {
		return header
	}
	kept := maps.Clone(header)
	for i := range arguments {
		wireName := arguments[i].WireName
		switch arguments[i].In {
		case tools.InHeader:
			maps.DeleteFunc(kept, func(name string, _ []string) bool {
				return httpheader.Canonical(name) == httpheader.Canonical(wireName)
			})
		case tools.InCookie:
			cookies := strings.Split(strings.Join(kept["Cookie"], ";"), ";")
			cookies = slices.DeleteFunc(cookies, func(cookie string) bool {
				name, _, _ := strings.Cut(strings.TrimSpace(cookie), "=")
				return name == "" || strings.EqualFold(strings.TrimSpace(name), wireName)
			})
			if delete(kept, "Cookie"); len(cookies) > 0 {
				kept["Cookie"] = []string{strings.Join(cookies, ";")}
			}
		}
	}
	return kept
}

// Arguments returns the arguments of a call of the named tool that the inspectors pass. They may require a review of these, or
// reject them.
func (i *Inspection) Arguments(ctx context.Context, name string, arguments []byte) ([]byte, *inspect.ReviewError, *tools.Failure) {
	if len(arguments) == 0 || !i.Chain.Has(inspect.Arguments) && !i.LogOnly.Has(inspect.Arguments) {
		return arguments, nil, nil
	}
	m := i.message(inspect.Arguments)
	m.Body, m.JSON = arguments, true
	passed, _, err := i.inspect(ctx, m)
	if err == nil {
		return passed, nil, nil
	}
	if review, ok := errors.AsType[*inspect.ReviewError](err); ok {
		return review.Body, review, nil
	}
	return nil, nil, &tools.Failure{Kind: tools.Restricted, Message: "The API was not called, because of the arguments of " + text.Cut(name, maxNamed) +
		": " + err.Error() + "."}
}

// maxNamed limits the name of a tool in a message, in bytes.
const maxNamed = 128

// rejectedOutcome returns the outcome of a call whose arguments were rejected.
func rejectedOutcome(ctx context.Context, set *tools.Toolset, name string) (outcome tools.Outcome, rejected bool) {
	failure, rejected := ctx.Value(rejectedKey{}).(*tools.Failure)
	outcome.Failure = failure
	outcome.Tool, _ = set.Tool(name)
	return outcome, rejected
}

// newInspection returns the inspection of one call.
func newInspection(ctx context.Context, d *dispatch, t *tools.Tool) *Inspection {
	return &Inspection{
		Purpose: tools.PurposeOf(ctx),
		Chain:   d.inspectors, Tool: t, Toolset: d.toolset, Protocol: d.protocol, Agent: d.agent, User: UserOf(d.client.Request).ID,
		Limit: d.limits.MaxResponse, Logger: d.logger,
		LogOnly: d.logOnly.Inspect,
	}
}

// InspectsResponse reports whether an inspector gets the response.
func (i *Inspection) InspectsResponse() bool {
	return i != nil && (i.Chain.Has(i.phase(http.StatusOK)) || i.Chain.Has(inspect.Error))
}

// phase returns the phase of a response.
func (i *Inspection) phase(status int) inspect.Phase {
	if status >= http.StatusBadRequest {
		return inspect.Error
	}
	return inspect.Phase(cmp.Or(i.Purpose, tools.ForResult))
}

// SetInspection makes InspectResponse inspect the response. Events of a stream are not forwarded, since a value may be split over
// several of them.
func (r *Recorder) SetInspection(i *Inspection) {
	if i.InspectsResponse() {
		r.Inspection = i
		r.SuppressEvents()
	} else if i.LogOnly.Has(i.phase(http.StatusOK)) || i.LogOnly.Has(inspect.Error) {
		r.Inspection = i
	}
}

// InspectResponse replaces the recorded response with what the inspectors pass. A response that is rejected is discarded, and
// r.Refusal says why. It does nothing after the first call, and for an incomplete response.
func (r *Recorder) InspectResponse(ctx context.Context) {
	if r.Inspection == nil || r.Inspection.done || r.Status == 0 || r.TooLarge || r.Err != nil {
		return
	}
	r.Inspection.done = true
	defer func() { noteWould(ctx, r.Inspection.Would) }()
	if r.Stream != nil {
		if ctx.Err() != nil && !r.StreamComplete() {
			return
		}
		if err := r.FinishStream(); err != nil {
			r.Fail(err)
			return
		}
		r.Inspection.events = true
	}
	if r.Body == nil || len(r.Body.B) == 0 {
		r.Inspection.Headers(r.Headers)
		return
	}
	if !r.Inspection.InspectsResponse() {
		r.Inspection.TryResponse(ctx, r.Status, r.Headers, r.Body.B)
		return
	}
	body, err := r.Inspection.Response(ctx, r.Status, r.Headers, r.Body)
	r.Body = body
	if err == nil {
		return
	}
	r.Discard()
	r.Hold()
	r.Status = http.StatusBadGateway
	r.Refusal = &tools.Failure{Kind: tools.Restricted, Made: true, Message: r.Inspection.Withheld(err)}
}

// Withheld returns the message for a response that was rejected.
func (i *Inspection) Withheld(err error) string {
	return "The API was called, but its response is withheld: " + err.Error() + ". Do not repeat a call that changes something."
}

// errUnreadable is the reason to withhold a response that inspectors cannot read.
var errUnreadable = errors.New("its encoding cannot be read, so it cannot be inspected")

// Response inspects a response. It takes the body, and returns the one that passes. After an error, the caller must not send
// the body that it returns: it is the original, or nil if the original could not be decoded.
func (i *Inspection) Response(ctx context.Context, status int, header http.Header, body *buffer.Buffer) (*buffer.Buffer, error) {
	i.done = true
	i.Headers(header)
	decoded, err := DecodeBody(header, body, i.Limit)
	if err == nil {
		decoded, err = DecodeText(header, decoded, i.Limit)
	}
	if err != nil {
		return nil, errUnreadable
	}
	phase := i.phase(status)
	m := i.message(phase)
	mediaType := httpheader.MediaType(header.Get("Content-Type"))
	m.JSON, m.Text = httpheader.IsJSON(mediaType), httpheader.IsText(mediaType)
	m.Events = i.events || mediaType == result.NativeType
	var uris contentURIs
	m.Body, uris = cutURIs(phase, mediaType, decoded.B)
	passed, _, err := i.inspect(ctx, m)
	if err != nil || bytes.Equal(passed, m.Body) {
		return decoded, err
	}
	if uris != nil {
		if passed, err = uris.restore(passed); err != nil {
			return decoded, err
		}
	}
	if err := i.checkSchema(phase, header, decoded.B, passed); err != nil {
		return decoded, err
	}
	decoded.B = append(decoded.B[:0], passed...)
	for name := range header {
		if describesBody(name) {
			delete(header, name)
		}
	}
	return decoded, nil
}

// checkSchema returns an error if a response that was valid for the output schema of the tool no longer is.
func (i *Inspection) checkSchema(phase inspect.Phase, header http.Header, before, after []byte) error {
	if phase != inspect.Result || i.Tool == nil || i.Tool.Output.Schema == nil {
		return nil
	}
	value := func(body []byte) jsontext.Value { return body }
	if strings.HasPrefix(header.Get("Content-Type"), result.NativeType) {
		value = func(body []byte) jsontext.Value { return strictjson.MemberOf(body, "structuredContent") }
	}
	isValid := func(body []byte) bool { return i.Tool.CheckResponse(value(body)) == nil }
	if value(before) == nil || !isValid(before) || isValid(after) {
		return nil
	}
	return errors.New("it has values that must be masked, and would then not be valid for the schema of the tool")
}

// describesBody reports whether a header describes the original body.
func describesBody(name string) bool {
	switch name {
	case "Content-Length", "Etag", "Digest", "Content-Md5", "Content-Digest", "Repr-Digest", "Accept-Ranges":
		return true
	}
	return false
}

// shown are the headers of a response whose values callers of tools see.
var shown = [...]string{"Content-Disposition", "Location", "Link", "Warning", "Www-Authenticate"}

// Headers removes the headers of a response in which a built-in inspector finds something.
func (i *Inspection) Headers(header http.Header) {
	for _, name := range shown {
		if slices.ContainsFunc(header[name], i.Chain.FindsIn) {
			delete(header, name)
		}
	}
}
