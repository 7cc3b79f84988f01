package tools

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// HiddenValue is shown in place of a secret. Callers use it as the value of credentials.
const HiddenValue = "***"

const (
	maxBody = 1 << 20 // bytes of a body that are shown

	// minConcealed is the length from which a value is concealed, in bytes. Shorter ones would conceal
	// other text.
	minConcealed = 4
)

// Preview is a request that is shown.
type Preview struct {
	Method string
	Target string // path and query
	Header http.Header
	Body   string
}

// PreviewOptions say how the request is made.
type PreviewOptions struct {
	// Make returns the request of a call, with credentials that are Hidden.
	Make func(context.Context, *Call) (*http.Request, error)
	// Secrets returns values that Make has used and that must not be shown. It is called after Make.
	Secrets func() []string
}

// PreviewOf returns the request that a call of the named tool becomes. Arguments is a JSON object. If the
// arguments do not fit the tool, the error is a *tools.Failure.
func PreviewOf(ctx context.Context, tools *Toolset, name string, arguments []byte, options PreviewOptions) (*Preview, error) {
	p := &preview{options: options}
	outcome := Execute(ctx, tools, name, arguments, p)
	defer outcome.Release()
	switch {
	case p.err != nil:
		return nil, p.err
	case p.request == nil:
		return nil, outcome.Failure
	}
	return p.request, nil
}

// preview is a tools.Invoker that keeps the request in place of sending it.
type preview struct {
	options PreviewOptions
	request *Preview
	err     error
}

// Invoke implements tools.Invoker.
func (p *preview) Invoke(ctx context.Context, call *Call) (*Result, error) {
	r, err := p.options.Make(ctx, call)
	if err != nil {
		p.err = err
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(io.LimitReader(r.Body, maxBody)); err != nil {
			p.err = err
			return nil, err
		}
	}
	conceal := concealer(p.options.Secrets())
	p.request = &Preview{
		Method: r.Method,
		Target: conceal.Replace(strings.ReplaceAll(r.URL.RequestURI(), url.QueryEscape(HiddenValue), HiddenValue)),
		Header: make(http.Header, len(r.Header)),
		Body:   conceal.Replace(string(body)),
	}
	for name, values := range r.Header {
		for _, value := range values {
			p.request.Header[name] = append(p.request.Header[name], conceal.Replace(value))
		}
	}
	return &Result{Status: http.StatusNoContent}, nil
}

// concealer returns what replaces the secrets, in all forms that a request can have them in.
func concealer(secrets []string) *strings.Replacer {
	var pairs []string
	for _, secret := range secrets {
		if len(secret) < minConcealed {
			continue
		}
		quoted := string(strictjson.AppendString(nil, secret))
		for _, form := range [...]string{
			secret, url.QueryEscape(secret), url.PathEscape(secret), strings.ReplaceAll(url.QueryEscape(secret), "+", "%20"), quoted[1 : len(quoted)-1],
		} {
			pairs = append(pairs, form, HiddenValue)
		}
	}
	return strings.NewReplacer(pairs...)
}

// Text returns the request as text, with the origin before the target.
func (r *Preview) Text(origin string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", r.Method, origin+r.Target)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	if r.Body != "" {
		fmt.Fprintf(&b, "\n%s\n", r.Body)
	}
	return b.String()
}
