package oagent

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent/chat"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp"
)

// checkInput calls the input guardrail with the text that is about to reach the model. That is
// the newest message, each time, and all earlier messages that have not passed in this
// Engagement. So a client cannot insert an unchecked message into the history of a
// conversation.
func (x *chatExchange) checkInput() error {
	if x.binding.Agent.Input == nil || len(x.request.Inputs) == 0 {
		return nil
	}
	inputs := x.request.Inputs
	newest := len(inputs) - 1
	var texts []string
	for _, text := range inputs[:newest] {
		if !x.passed.has(x.passedKey(text)) {
			texts = append(texts, text)
		}
	}
	texts = append(texts, inputs[newest])
	if err := x.ask(engagement.SideInput, strings.Join(texts, "\n\n"), ""); err != nil {
		return err
	}
	for _, text := range texts {
		x.passed.add(x.passedKey(text))
	}
	return nil
}

// checkOutput calls the output guardrail with the text of the model.
func (x *chatExchange) checkOutput(text string) error {
	if text == "" {
		return x.guard.CheckActive(x.r.Context(), x.binding)
	}
	return x.ask(engagement.SideOutput, x.request.Said, text)
}

// ask invokes the tool of a guardrail. The Guard then evaluates the assertion over its output.
func (x *chatExchange) ask(side engagement.Side, input, output string) error {
	guardrail := x.binding.Agent.Guardrail(side)
	outputs, err := x.invoke(side, guardrail.Tool, input, output)
	if err != nil {
		x.Chat.logger.Error("the tool of a guardrail could not be used, so nothing passes",
			zap.String("agent", x.binding.Agent.Name), zap.String("tool", guardrail.Tool), zap.Error(err))
		return x.guard.FailGuardrail(x.r.Context(), x.binding, side, err)
	}
	return x.guard.CheckGuardrail(x.r.Context(), x.binding, side, outputs)
}

// invoke sends the tool call directly to the tool's API. It cannot use the next handlers,
// because they lead to the model API.
func (x *chatExchange) invoke(side engagement.Side, name, input, output string) (jsontext.Value, error) {
	op := x.linked.Names.Find(name)
	if op == nil {
		return nil, errors.New("its toolset is not loaded")
	}
	tools := op.Toolset.Filled(op.Set)
	tool, _ := tools.Tool(op.Tool.Name)
	arguments, err := chat.InputArguments(tool)
	if side == engagement.SideOutput {
		arguments, err = chat.OutputArguments(tool)
	}
	if err != nil {
		return nil, err
	}
	invoker, err := x.invoker(op.Toolset, op.Set)
	if err != nil {
		return nil, err
	}
	outcome := ocp.Execute(x.r.Context(), tools, tool.Name, arguments.JSON(input, output), invoker)
	defer outcome.Release()
	if outcome.Failure != nil {
		outcome.Failure.Message = toolcall.ConcealCredentials(outcome.Failure.Message, op.Toolset.Credentials)
		return nil, outcome.Failure
	}
	return guardrailOutput(op.Tool, outcome.Result)
}

var (
	errNotText = errors.New("its output is neither JSON nor text")
	errNotJSON = errors.New("its output is not JSON, as its document declares")
	errHTML    = errors.New("its output is an HTML page")
)

// guardrailOutput returns the input of the assertion: the JSON of a response, or its text as a
// string. An HTML page, or text from a tool that declares JSON, is an error: it comes from a
// proxy in front of the tool and says nothing about the checked text.
func guardrailOutput(tool *ocp.Tool, result *ocp.Result) (jsontext.Value, error) {
	body := result.Body
	switch {
	case result.MediaType() == "text/html" && !slices.Contains(tool.Answer.MediaTypes, "text/html"):
		return nil, errHTML
	case len(body) == 0:
		return jsontext.Value("null"), nil
	case wire.Check(body) == nil:
		return append(jsontext.Value(nil), body...), nil
	case answersJSON(tool):
		return nil, errNotJSON
	case utf8.Valid(body):
		return wire.AppendString(nil, body), nil
	}
	return nil, errNotText
}

// invoker returns the client for calls to the API of a toolset. It uses the credentials that
// the gateway has for the API, and none of the caller's.
func (c *Chat) invoker(t *agents.Toolset, tools *ocp.Toolset) (*ocp.HTTPInvoker, error) {
	origin := c.Upstream
	if origin == "" {
		origin = tools.Origin
	}
	if origin == "" {
		return nil, fmt.Errorf("the document of toolset %s does not say where its API is: give chat an upstream", t.Name)
	}
	invoker, err := ocp.NewHTTPInvoker(origin)
	if err != nil {
		return nil, err
	}
	invoker.MaxResponse = t.Limits.MaxResponse
	invoker.Client.Timeout = max(t.Limits.Timeout, 0)
	invoker.Client.Transport = credentialed{t.Credentials}
	return invoker, nil
}

// credentialed is an http.RoundTripper that injects the gateway's credentials.
type credentialed struct{ agents.Credentials }

// RoundTrip implements http.RoundTripper.
func (c credentialed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if err := c.Apply(r, caddy.NewReplacer()); err != nil {
		return nil, err
	}
	return http.DefaultTransport.RoundTrip(r)
}

// passedKey returns the key of a text that passed an agent's guardrail in an Engagement.
func (x *chatExchange) passedKey(text string) [sha256.Size]byte {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s ", x.binding.Key(), x.binding.Agent.Hash)
	sum.Write([]byte(text))
	return [sha256.Size]byte(sum.Sum(nil))
}

// maxPassed is the number of texts in each of the two generations.
const maxPassed = 1 << 15

// passedTexts remembers texts that have passed. If it forgets one, the guardrail checks that
// text again.
type passedTexts struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
}

func (p *passedTexts) has(key [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.young[key]; ok {
		return true
	}
	if _, ok := p.old[key]; !ok {
		return false
	}
	p.put(key)
	return true
}

func (p *passedTexts) add(key [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(key)
}

func (p *passedTexts) put(key [sha256.Size]byte) {
	if len(p.young) >= maxPassed {
		p.old, p.young = p.young, nil
	}
	if p.young == nil {
		p.young = make(map[[sha256.Size]byte]struct{})
	}
	p.young[key] = struct{}{}
}
