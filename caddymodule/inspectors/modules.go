// Package inspectors provides the inspectors of toolsets and of models as Caddy modules of the namespace agents.inspectors: secrets, pii,
// webhook, presidio and moderation. Package tools/inspect/detect implements them.
package inspectors

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2"

	placing "github.com/fairwayhq/fairway/caddymodule/inspect"
	"github.com/fairwayhq/fairway/internal/webhook"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/inspect/detect"
)

func init() {
	caddy.RegisterModule(Secrets{})
	caddy.RegisterModule(PII{})
	caddy.RegisterModule(Webhook{})
	caddy.RegisterModule(Presidio{})
	caddy.RegisterModule(Moderation{})
}

// Actions of the built-in inspectors.
const (
	actionMask   = "mask"
	actionReject = "reject"
	actionReview = "review"
)

// Options are the options that the built-in inspectors share.
type Options struct {
	// What happens with what is found. "mask": it is replaced. "reject": the call fails, or the tool is not listed. "review": the
	// reviewer must approve the call, and what is found is masked for the reviewer and in records, except by moderation, which masks
	// nothing. It needs oagent with the option originals.
	// Default: mask; reject for moderation.
	Action string `json:"action,omitempty"`

	// Who approves the calls that need a review: the id of a user, or the name of a reviewer of oagent. Required for the action
	// review. Default: none; a webhook that decides for a review rejects the call.
	Reviewer string `json:"reviewer,omitempty"`

	// What is inspected: "arguments" of tool calls, "result" and "error" bodies of responses, responses for "resources" and "prompts", and
	// the texts of tools in the "list". Of a model: the "request" and the "response". Default: all but list; pii and presidio inspect no
	// arguments, and moderation no errors; secrets also inspects the list. For the action review it is arguments.
	Phases []inspect.Phase `json:"phases,omitempty"`

	// Whether what the inspector would do is only reported: it rejects and masks nothing, and requires no review. It then inspects no
	// lists, and is for toolsets only. Default: false.
	LogOnly bool `json:"log_only,omitempty"`
}

// isAction reports whether there is an action of that name.
func isAction(name string) bool {
	return name == actionMask || name == actionReject || name == actionReview
}

// step returns the step of an inspector with these options.
func (o *Options) step(name string) inspect.Step {
	return inspect.Step{Name: name, Reviewer: o.Reviewer, Reviews: o.Action == actionReview, LogOnly: o.LogOnly}
}

// checkReviewer rejects a reviewer without the action review. A webhook has one, because it may decide for a review.
func (o *Options) checkReviewer() error {
	if o.Reviewer != "" && o.Action != actionReview {
		return errors.New("the option reviewer is for the action review, as in: inspect pii review { reviewer privacy-team }")
	}
	return nil
}

// phases returns the phases, or the default ones.
func (o *Options) phases(standard ...inspect.Phase) ([]inspect.Phase, error) {
	for _, phase := range o.Phases {
		if !slices.Contains(inspect.Phases[:], phase) {
			return nil, fmt.Errorf("unknown phase %q; known are arguments, result, error, resources, prompts and list, and request and response for models", phase)
		}
	}
	switch {
	case o.Action != "" && !isAction(o.Action):
		return nil, fmt.Errorf("unknown action %q; known are mask, reject and review", o.Action)
	case len(o.Phases) > 0:
		return o.Phases, nil
	case o.Action == actionReview:
		return []inspect.Phase{inspect.Arguments}, nil
	}
	return standard, nil
}

// Secrets finds API keys, access tokens, private keys, and passwords in URLs and in members that are named so.
type Secrets struct {
	Options
}

// CaddyModule implements caddy.Module.
func (Secrets) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: placing.Namespace + ".secrets", New: func() caddy.Module { return new(Secrets) }}
}

// Step implements Module.
func (s *Secrets) Step() (step inspect.Step, err error) {
	step = s.step("secrets")
	step.Inspector = detect.Detect(detect.Secrets(), s.Action == actionReject)
	step.Phases, err = s.phases(inspect.Phases[:]...)
	return step, errors.Join(err, s.checkReviewer())
}

// PII finds personal data.
type PII struct {
	Options

	// What is found: email, phone, iban, card, ssn. Default: all.
	Entities []string `json:"entities,omitempty"`

	// Further entities: regular expressions (RE2) by label. The label replaces what is masked.
	// Default: none.
	Patterns map[string]string `json:"patterns,omitempty"`
}

// CaddyModule implements caddy.Module.
func (PII) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: placing.Namespace + ".pii", New: func() caddy.Module { return new(PII) }}
}

// Step implements Module.
func (p *PII) Step() (inspect.Step, error) {
	step := p.step("pii")
	phases, err := p.phases(inspect.Result, inspect.Error)
	if err = errors.Join(err, p.checkReviewer()); err != nil {
		return step, err
	}
	var patterns []detect.Pattern
	for label, expression := range p.Patterns {
		compiled, err := compile(label, expression)
		if err != nil {
			return step, err
		}
		patterns = append(patterns, detect.Pattern{Label: label, Expression: compiled})
	}
	slices.SortFunc(patterns, func(a, b detect.Pattern) int {
		if a.Label < b.Label {
			return -1
		}
		return 1
	})
	detector, err := detect.PII(p.Entities, patterns)
	step.Inspector, step.Phases = detect.Detect(detector, p.Action == actionReject), phases
	return step, err
}

var isLabel = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// compile checks and compiles a pattern.
func compile(label, expression string) (*regexp.Regexp, error) {
	if !isLabel.MatchString(label) {
		return nil, fmt.Errorf("pattern %q: a label has lower-case letters, digits, - and _, as in: pattern customer-number `C-\\d{8}`", label)
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", label, err)
	}
	return compiled, nil
}

// Remote are the options of inspectors that send messages to a server.
type Remote struct {
	Options

	// The URL of the server. Placeholders such as {env.CHECK_URL} are replaced. Required, but for moderation.
	URL string `json:"url,omitempty"`

	// How long the server may take. Default: 2s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// What happens if the server does not decide. "deny": the message is rejected. "pass": it passes. Default: deny.
	OnError string `json:"on_error,omitempty"`

	client *webhook.Client
}

// phases returns the phases, or the default ones.
func (r *Remote) phases(standard ...inspect.Phase) ([]inspect.Phase, error) {
	phases, err := r.Options.phases(standard...)
	switch {
	case err != nil:
	case slices.Contains(phases, inspect.List):
		err = errors.New("the phase list is for secrets and pii")
	case r.OnError != "" && r.OnError != onErrorPass && r.OnError != onErrorDeny:
		err = fmt.Errorf("on_error %q: use deny or pass", r.OnError)
	}
	return phases, err
}

// Cleanup implements caddy.CleanerUpper.
func (r *Remote) Cleanup() error {
	r.client.Close()
	return nil
}

// Webhook leaves the decision to a server.
type Webhook struct {
	Remote

	// The secret that signs the requests (Standard Webhooks): 16 bytes or more, or whsec_ and base64. Placeholders are replaced.
	// Required.
	Secret string `json:"secret,omitempty"`
}

// CaddyModule implements caddy.Module.
func (Webhook) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: placing.Namespace + ".webhook", New: func() caddy.Module { return new(Webhook) }}
}

// Step implements Module.
func (w *Webhook) Step() (step inspect.Step, err error) {
	step = w.step("webhook")
	step.Inspector = &detect.Webhook{Client: w.client, PassOnError: w.OnError == onErrorPass}
	if step.Phases, err = w.phases(inspect.Arguments, inspect.Result, inspect.Error); err == nil && w.Action != "" {
		err = errors.New("the server decides what happens: remove the action")
	}
	return step, err
}

// Presidio finds personal data with an analyzer of Presidio.
type Presidio struct {
	Remote
	detect.PresidioOptions
}

// CaddyModule implements caddy.Module.
func (Presidio) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: placing.Namespace + ".presidio", New: func() caddy.Module { return new(Presidio) }}
}

// Step implements Module.
func (p *Presidio) Step() (step inspect.Step, err error) {
	step = p.step("presidio")
	step.Inspector = &detect.Presidio{
		PresidioOptions: p.PresidioOptions, Client: p.client, Reject: p.Action == actionReject, PassOnError: p.OnError == onErrorPass,
	}
	if step.Phases, err = p.phases(inspect.Result, inspect.Error); err == nil && (p.Threshold < 0 || p.Threshold > 1) {
		err = fmt.Errorf("threshold %g: must be from 0 to 1", p.Threshold)
	}
	return step, errors.Join(err, p.checkReviewer())
}

// Moderation rejects texts in which a moderation API finds something harmful. The API has the format of OpenAI.
type Moderation struct {
	Remote

	// The API key. Placeholders such as {env.OPENAI_API_KEY} are replaced. Default: none.
	Key string `json:"key,omitempty"`

	detect.ModerationOptions
}

// CaddyModule implements caddy.Module.
func (Moderation) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: placing.Namespace + ".moderation", New: func() caddy.Module { return new(Moderation) }}
}

// Step implements Module.
func (m *Moderation) Step() (step inspect.Step, err error) {
	step = m.step("moderation")
	step.Inspector = &detect.Moderation{ModerationOptions: m.ModerationOptions, Client: m.client, PassOnError: m.OnError == onErrorPass}
	if step.Phases, err = m.phases(inspect.Arguments, inspect.Result); err == nil && m.Action == actionMask {
		err = errors.New("a moderation API says only whether a text is harmful: use reject or review")
	}
	return step, errors.Join(err, m.checkReviewer())
}

const (
	onErrorPass = "pass"
	onErrorDeny = "deny"
)

// Interface guards
var (
	_ placing.Module     = (*Secrets)(nil)
	_ placing.Module     = (*PII)(nil)
	_ placing.Module     = (*Webhook)(nil)
	_ placing.Module     = (*Presidio)(nil)
	_ placing.Module     = (*Moderation)(nil)
	_ caddy.Provisioner  = (*Webhook)(nil)
	_ caddy.Provisioner  = (*Presidio)(nil)
	_ caddy.Provisioner  = (*Moderation)(nil)
	_ caddy.CleanerUpper = (*Remote)(nil)
)
