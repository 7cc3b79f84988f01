package console

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
)

// maxForm limits the body of a request that tries a tool, in bytes.
const maxForm = 1 << 20

// tryModel is a tool, and what came of trying it.
type tryModel struct {
	Tool    *toolDetail    `json:"tool"`
	Problem string         `json:"problem,omitzero"` // why there is no request
	Sent    jsontext.Value `json:"arguments,omitzero"`
	Request *requestModel  `json:"request,omitzero"`
	Answer  *answerModel   `json:"answer,omitzero"` // nil if the call was not sent
	Copies  []copyModel    `json:"copies,omitzero"`

	Shape  *shape  `json:"-"` // that is tried on the answer
	Inputs []input `json:"-"` // of the form
	JSON   string  `json:"-"` // the arguments as the user wrote them
}

// requestModel is the REST request that a call becomes, without secrets.
type requestModel struct {
	Method  string              `json:"method"`
	Target  string              `json:"target"`
	Headers map[string][]string `json:"headers"`
	Body    string              `json:"body,omitzero"`
	Text    string              `json:"-"`
}

// copyModel is a text that users copy.
type copyModel struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// tryRequest is the body of a request of a program that tries a tool.
type tryRequest struct {
	Arguments jsontext.Value `json:"arguments"`
	DryRun    bool           `json:"dry_run"`
	Shape     shape          `json:"shape"`
}

// toolPage is the page of a tool, which shows and tries it.
type toolPage struct {
	site     *siteOf
	in       *request
	endpoint siteEndpoint
	toolset  *tools.Toolset
	tool     *tools.Tool
}

// serve serves the tool, and tries it.
func (p *toolPage) serve() (*page, error) {
	m := &tryModel{Tool: p.endpoint.detail(p.tool, p.toolset), Shape: new(shape)}
	m.Inputs = inputs(m.Tool.Arguments, nil)
	shown := &page{view: "tools", template: "tool", part: "answer", title: p.tool.Name, model: m}
	switch {
	case p.in.isRead():
		return shown, nil
	case p.in.Method != http.MethodPost:
		return nil, errNotFound
	}
	arguments, dryRun, err := p.readArguments(m)
	if err != nil {
		return nil, err
	}
	if m.Problem == "" {
		p.try(m, arguments, dryRun)
	}
	return shown, nil
}

// readArguments reads the arguments of a form, or of a program's request. If they are no JSON object, it
// sets m.Problem.
func (p *toolPage) readArguments(m *tryModel) (arguments []byte, dryRun bool, err error) {
	var wanted tryRequest
	if err := p.in.readBody(&wanted, `{"arguments": {}, "dry_run": true}`); err != nil {
		return nil, false, err
	}
	if p.in.api {
		if arguments, dryRun, *m.Shape = wanted.Arguments, wanted.DryRun, wanted.Shape; len(arguments) == 0 {
			arguments = []byte("{}")
		}
	} else {
		form := p.in.PostForm
		dryRun = form.Get("do") == "preview"
		m.Inputs, m.JSON = inputs(m.Tool.Arguments, form), strings.TrimSpace(form.Get("json"))
		if arguments = []byte(m.JSON); len(arguments) == 0 {
			arguments = formArguments(m.Inputs)
		}
		if err := m.Shape.read(form); err != nil {
			m.Problem = err.Error()
		}
	}
	if err := m.Shape.check(); err != nil {
		m.Problem = err.Error()
	}
	if strictjson.Check(arguments) != nil || jsontext.Value(arguments).Kind() != '{' {
		m.Problem = "The arguments are not a JSON object. Write it like {\"name\": \"value\"}."
	}
	return arguments, dryRun, nil
}

// try shows the request that a call becomes, and sends the call unless it is a dry run.
func (p *toolPage) try(m *tryModel, arguments []byte, dryRun bool) {
	m.Sent = arguments
	shown, err := p.preview(arguments)
	var failed *tools.Failure
	switch {
	case errors.As(err, &failed):
		m.Problem = failed.Message
		setProblems(m.Inputs, failed.Problems)
	case err != nil:
		m.Problem = "The request cannot be shown: " + err.Error()
	default:
		m.Request = &requestModel{shown.Method, shown.Target, shown.Header, shown.Body, shown.Text("")}
	}
	if !dryRun {
		m.Answer = p.call(arguments, m.Shape)
		if m.Request == nil {
			m.Problem = "" // the answer says the same
		}
	}
	m.Copies = p.copies(m)
}

// preview returns the request that a call becomes. Secrets are hidden: credentials, values of {env.*} and
// {file.*}, and for others than auditors all fixed values.
func (p *toolPage) preview(arguments []byte) (*tools.Preview, error) {
	toolset := p.endpoint.toolsetOf(p.tool, p.toolset)
	credentials := toolset.Credentials.Hidden()
	_, own := p.toolset.Original(p.tool)
	var secrets []string
	replace := func(text string) (string, error) {
		outer, _ := p.in.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		global, repl := caddy.NewReplacer(), caddy.NewEmptyReplacer()
		repl.Map(func(key string) (any, bool) {
			switch key {
			case "http.tool.name":
				return own.Name, true
			case "http.tool.toolset":
				return toolset.Name, true
			case "http.tool.protocol":
				return p.endpoint.Protocol, true
			}
			if value, known := global.Get(key); known {
				if strings.HasPrefix(key, "env.") || strings.HasPrefix(key, "file.") {
					secrets = append(secrets, caddy.ToString(value))
				}
				return value, true
			}
			if outer == nil || !app.FixedPlaceholder(key) {
				return nil, false
			}
			return outer.Get(key)
		})
		value, err := repl.ReplaceOrErr(text, true, true)
		if !p.in.viewer.Auditor {
			secrets = append(secrets, value)
		}
		return value, err
	}
	return tools.PreviewOf(p.in.Context(), p.toolset.PartOf(p.tool), own.Name, arguments, tools.PreviewOptions{
		Make: func(ctx context.Context, call *tools.Call) (*http.Request, error) {
			if err := call.Resolve(replace); err != nil {
				return nil, err
			}
			call.Fill(credential.Values(credentials))
			r, err := call.Request(ctx)
			if err == nil {
				credentials.Apply(r)
			}
			return r, err
		},
		Secrets: func() []string { return secrets },
	})
}
