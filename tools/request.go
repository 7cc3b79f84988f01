package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
	"github.com/fairwayhq/fairway/tools/security"
)

// Resolve sets the fixed values that contain placeholders. Replace returns a text with its placeholders
// replaced, or an error if one is empty or unknown. The error is a *PlaceholderError, and the call must
// not be sent then. A call that is not resolved cannot be sent.
func (c *Call) Resolve(replace func(source string) (string, error)) error {
	if c.Tool.Plan.guards == nil {
		return nil
	}
	return c.Tool.Plan.guards.resolve(c, replace)
}

// Request builds the REST request for the call, with an absolute path and no host. If an
// argument cannot be sent, for example because a path argument would leave its segment,
// the error is a *Failure of kind InvalidArguments.
func (c *Call) Request(ctx context.Context) (*http.Request, error) {
	r, err := c.ServerRequest(ctx)
	if err != nil {
		return nil, err
	}
	r.RequestURI = "" // an HTTP client rejects it
	return r, nil
}

// ServerRequest is Request for a handler instead of a client: RequestURI is set.
func (c *Call) ServerRequest(ctx context.Context) (*http.Request, error) {
	if c.Tool.Plan.guards != nil {
		if err := c.checkResolved(); err != nil {
			return nil, err
		}
	}
	if c.Files != nil {
		filled := *c
		filled.values = slices.Clone(c.values)
		if err := c.Files.Fill(ctx, c, filled.values); err != nil {
			return nil, err
		}
		c = &filled
	}
	scratch := buffer.Get()
	defer buffer.Put(scratch)
	parts := new(struct { // one allocation for both
		url    url.URL
		accept [1]string
	})
	b := requestBuilder{call: c, plan: &c.Tool.Plan, scratch: scratch}
	if err := b.appendPath(); err != nil {
		return nil, err
	}
	r := new(http.Request).WithContext(ctx)
	r.Method = c.Tool.Plan.Method
	r.URL = &parts.url
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	r.Header = make(http.Header)
	r.Body = http.NoBody
	parts.accept[0] = c.Tool.Plan.Accept
	r.Header["Accept"] = parts.accept[:]
	if err := b.setParameters(r); err != nil {
		return nil, err
	}
	if err := b.setBody(r); err != nil {
		return nil, err
	}
	return r, nil
}

// Path returns the escaped path of the request.
func (c *Call) Path() (string, error) {
	scratch := buffer.Get()
	defer buffer.Put(scratch)
	b := requestBuilder{call: c, plan: &c.Tool.Plan, scratch: scratch}
	if err := b.appendPath(); err != nil {
		return "", err
	}
	target := &url.URL{}
	if err := b.setPath(target, string(scratch.B)); err != nil {
		return "", err
	}
	return target.EscapedPath(), nil
}

// value returns the value that is sent for the argument at position i, or nil for nothing.
func (c *Call) value(i int) jsontext.Value {
	if v := c.values[i]; v != nil {
		return v
	}
	return c.Tool.Plan.Encodings[i].Fill
}

// A requestBuilder writes the values of a call into a request, as the plan of the tool says.
type requestBuilder struct {
	call    *Call
	plan    *Plan          // of the tool
	scratch *buffer.Buffer // for the path and the query
}

// appendPath appends the escaped path to the scratch buffer, which is empty.
func (b *requestBuilder) appendPath() error {
	escaped := b.scratch.B
	for _, part := range b.plan.Parts {
		if part.Literal != "" {
			escaped = append(escaped, part.Literal...)
			continue
		}
		value := b.call.value(part.Argument)
		if value == nil || value.Kind() == 'n' {
			return b.unsendable(part.Argument, errors.New("must not be empty"))
		}
		var err error
		if escaped, err = b.plan.Encodings[part.Argument].Param.Append(escaped, value); err != nil {
			return b.unsendable(part.Argument, err)
		}
	}
	b.scratch.B = escaped
	if bytes.IndexByte(escaped, '.') >= 0 && request.HasDotSegment(escaped, false) {
		return b.call.Tool.invalid([]Problem{{Message: "the path arguments together make a . or .. segment, which would lead to another path"}})
	}
	if b.plan.rivals != nil {
		return b.checkRival(string(escaped))
	}
	return nil
}

// Rival returns the operation to which servers route an escaped path of the tool because it is more concrete, or "" if there is
// none.
func (p *Plan) Rival(path string) string {
	if p.rivals == nil {
		return ""
	}
	return p.rivals.of(path)
}

// checkRival returns an error if the escaped path of a call would be routed to another operation.
func (b *requestBuilder) checkRival(path string) error {
	if other := b.plan.Rival(path); other != "" {
		return b.call.Tool.invalid([]Problem{{Message: fmt.Sprintf("the path arguments make the path of another operation, %s: call the tool of that operation, if there is one", other)}})
	}
	return nil
}

// setPath sets the path of a URL, which is given escaped.
func (b *requestBuilder) setPath(target *url.URL, raw string) error {
	target.Path = raw
	if request.IsPlainPath(raw) {
		return nil
	}
	unescaped, err := url.PathUnescape(raw)
	if err != nil {
		return &Failure{Kind: Internal, Message: fmt.Sprintf("the path of %s cannot be built: %v", b.call.Tool.Operation(), err)}
	}
	target.Path, target.RawPath = unescaped, raw
	return nil
}

// setTarget sets the URL and RequestURI to the content of the scratch buffer, which begins with a path of
// that length. The strings share their memory.
func (b *requestBuilder) setTarget(r *http.Request, path int) error {
	target := string(b.scratch.B)
	if path < len(target) {
		r.URL.RawQuery = target[path+1:] // without the question mark
	}
	if err := b.setPath(r.URL, target[:path]); err != nil {
		return err
	}
	r.RequestURI = target
	if r.URL.RawPath != "" {
		r.RequestURI = r.URL.RequestURI()
	}
	return nil
}

// setParameters sets the path, and the query, header and cookie arguments.
func (b *requestBuilder) setParameters(r *http.Request) error {
	path := len(b.scratch.B)
	query, cookies := append(append(b.scratch.B, '?'), b.plan.Query...), []byte(nil)
	for i := range b.plan.Arguments {
		a, param := &b.plan.Arguments[i], b.plan.Encodings[i].Param
		value := b.call.value(i)
		if value == nil || value.Kind() == 'n' || param == nil {
			continue
		}
		var err error
		switch a.In {
		case InQuery:
			if b.plan.guards != nil {
				if err := b.checkQuery(i, value); err != nil {
					return err
				}
			}
			query, err = appendJoined(query, path+1, "&", param, value)
		case InCookie:
			cookies, err = appendJoined(cookies, 0, "; ", param, value)
		case InHeader:
			var source []byte
			if source, err = param.Append(nil, value); err == nil {
				r.Header[a.WireName] = []string{string(source)}
			}
		}
		if err != nil {
			return b.unsendable(i, err)
		}
	}
	if len(query) == path+1 {
		query = query[:path]
	}
	b.scratch.B = query
	if len(cookies) > 0 {
		r.Header["Cookie"] = []string{string(cookies)}
	}
	return b.setTarget(r, path)
}

// appendJoined appends a parameter to those that begin at first, with the separator. If the value
// serializes to nothing, it appends nothing.
func appendJoined(dst []byte, first int, separator string, param *request.Serializer, value jsontext.Value) ([]byte, error) {
	start := len(dst)
	if start > first {
		dst = append(dst, separator...)
	}
	begin := len(dst)
	dst, err := param.Append(dst, value)
	if err != nil {
		return nil, err
	}
	if len(dst) == begin {
		dst = dst[:start]
	}
	return dst, nil
}

// setBody sets the body, unless it is optional and no argument of it is given.
func (b *requestBuilder) setBody(r *http.Request) error {
	body := b.plan.Body
	if body == nil || !body.Required && !b.call.hasBody() {
		return nil
	}
	content, contentType, err := b.encodeBody(body)
	if err != nil {
		return b.call.Tool.invalid([]Problem{b.bodyProblem(err)})
	}
	if contentType == "" {
		return nil
	}
	if b.plan.guards != nil {
		if err := b.checkBody(body, content); err != nil {
			return err
		}
	}
	r.Header["Content-Type"] = []string{contentType}
	r.ContentLength = int64(len(content))
	// The transport may still read the body after the response has arrived, so the bytes
	// must not come from a pool.
	r.Body = io.NopCloser(bytes.NewReader(content))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	return nil
}

// encodeBody returns the body and its media type. The media type is "" if there is no body.
func (b *requestBuilder) encodeBody(body *request.BodyPlan) (content []byte, contentType string, err error) {
	if body.Whole >= 0 {
		value := b.call.value(body.Whole)
		if value == nil {
			return nil, "", nil
		}
		return b.encoder(body).AppendValue(nil, value)
	}
	var onStack [16]strictjson.Member
	members := onStack[:0]
	for i := range b.plan.Arguments {
		if a := &b.plan.Arguments[i]; a.In == InBody {
			if value := b.call.value(i); value != nil {
				members = append(members, strictjson.Member{Name: a.WireName, Value: value})
			}
		}
	}
	return b.encoder(body).AppendObject(make([]byte, 0, 256), append(members, b.call.extra...))
}

// unsendable returns the failure for an argument that is valid but cannot be sent.
func (b *requestBuilder) unsendable(argument int, err error) error {
	message := err.Error()
	if refused, ok := errors.AsType[*request.Error](err); ok {
		message = refused.Problem
	}
	return b.call.Tool.invalid([]Problem{{Path: text.Pointer(b.plan.Arguments[argument].Name), Message: message}})
}

// bodyProblem returns the problem with the argument that prevents encoding the body.
func (b *requestBuilder) bodyProblem(err error) Problem {
	refused, ok := errors.AsType[*request.Error](err)
	if !ok {
		return Problem{Message: err.Error()}
	}
	for i := range b.plan.Arguments {
		if a := &b.plan.Arguments[i]; a.In == InBody && a.WireName == refused.Name {
			return Problem{Path: text.Pointer(a.Name), Message: refused.Problem}
		}
	}
	return Problem{Message: refused.Error()}
}

// encoder returns the encoder of the media type that the caller chose.
func (b *requestBuilder) encoder(body *request.BodyPlan) *request.Encoder {
	if body.Encoders == nil {
		return body.Encoder
	}
	var chosen string
	if value := b.call.value(body.TypeArgument); value.Kind() == '"' {
		source, _ := jsontext.AppendUnquote(nil, value)
		chosen = string(source)
	}
	if encoder := body.Encoders[chosen]; encoder != nil {
		return encoder
	}
	return body.Encoder
}

// invalid combines the problems into one message that a model can use to fix the call.
func (t *Tool) invalid(problems []Problem) *Failure {
	return &Failure{Kind: InvalidArguments, Message: "invalid arguments for " + t.Name + ":" + listProblems(problems), Problems: problems}
}

// listProblems returns the problems as text that begins with a space.
func listProblems(problems []Problem) string {
	var message strings.Builder
	for i, p := range problems[:min(len(problems), schema.MaxProblems)] {
		if i > 0 {
			message.WriteByte(';')
		}
		message.WriteByte(' ')
		if p.Path != "" {
			message.WriteString(text.Cut(p.Path, schema.MaxProblem))
			message.WriteString(": ")
		}
		message.WriteString(text.Cut(p.Message, schema.MaxProblem))
	}
	return message.String()
}

// SetFilledHeaders sets the headers and cookies that the gateway fills. It replaces values
// that were added to the request after Request built it, in every spelling that a server
// treats as the same header.
func (c *Call) SetFilledHeaders(header http.Header) {
	for i := range c.Tool.Plan.Encodings {
		a := &c.Tool.Plan.Arguments[i]
		value := c.value(i)
		if !c.Tool.Plan.Encodings[i].Filled || a.In != InHeader && a.In != InCookie || value == nil {
			continue
		}
		source, err := c.Tool.Plan.Encodings[i].Param.Append(nil, value)
		if err != nil {
			continue // Request has already returned the error
		}
		if a.In == InCookie {
			name, content, _ := strings.Cut(string(source), "=")
			cookie := http.Cookie{Name: name, Value: content} //nolint:gosec // a cookie in a request has no attributes
			(&security.Supplement{Cookies: []http.Cookie{cookie}}).Apply(&http.Request{Header: header})
			continue
		}
		for name := range header {
			if name != a.WireName && httpheader.Canonical(name) == httpheader.Canonical(a.WireName) {
				delete(header, name)
			}
		}
		header[a.WireName] = []string{string(source)}
	}
}

// TakesHeader reports whether a header is a parameter of the operation, also one that the gateway fills.
func (t *Tool) TakesHeader(name string) bool {
	return slices.ContainsFunc(t.Plan.Arguments, func(a Argument) bool { return a.In == InHeader && strings.EqualFold(a.WireName, name) })
}

// GivesHeader reports whether an argument of the call is sent as the header.
func (c *Call) GivesHeader(name string) bool {
	for i := range c.Tool.Plan.Arguments {
		if a := &c.Tool.Plan.Arguments[i]; a.In == InHeader && strings.EqualFold(a.WireName, name) {
			value := c.value(i)
			return value != nil && value.Kind() != 'n'
		}
	}
	return false
}
