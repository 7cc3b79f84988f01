package oagent

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/chat"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// oagentExtras are the parts of an oagent handler that do not guard the API: its own
// endpoints, and calls to reviewing agents.
type oagentExtras struct {
	pages oagentPages
	asker atomic.Pointer[reviewAsker] // nil if no agent is called about reviews
}

// provisionExtras runs at the end of Provision, when agents and toolsets are known.
func (o *Handler) provisionExtras(caddy.Context) error {
	o.extras.pages = oagentPages{
		Handler:     o,
		serve:       strings.TrimRight(o.Serve, "/"),
		engagements: strings.TrimRight(o.Engagements, "/"),
		reviews:     strings.TrimRight(o.Reviews, "/"),
	}
	if err := o.provisionReviewers(); err != nil {
		return err
	}
	if o.Chat != nil {
		if err := o.Chat.provision(o.logger); err != nil {
			return err
		}
	}
	return o.checkExtras()
}

// checkExtras rejects agents whose documents require something that is not configured. It
// warns about reviews that nobody can decide.
func (o *Handler) checkExtras() error {
	l := o.agents.Current()
	for _, name := range slices.Sorted(maps.Keys(o.Reviewers)) {
		if l.Agents[name] == nil {
			return fmt.Errorf("reviewer %s: there is no such agent; there are: %s", name, l.ListAgents())
		}
	}
	for _, a := range o.agents.Current().Documents() {
		if err := o.checkGuardrails(l, a); err != nil {
			return err
		}
		for i := range a.Capabilities {
			for rule, reviewer := range a.Capabilities[i].Reviewers() {
				o.warnUnanswered(l, a, rule, reviewer)
			}
		}
	}
	return nil
}

// checkGuardrails checks that the tools of the guardrails can be called. It skips tools whose
// toolset is not loaded yet.
func (o *Handler) checkGuardrails(l *agentset.Set, a *oagent.Agent) error {
	if a.Input == nil && a.Output == nil {
		return nil
	}
	if o.Chat == nil && o.Reviewers[a.Name] == nil {
		o.logger.Warn("an agent has guardrails, and nothing asks them here: they are for traffic to a model, see the subdirective chat, and for agents that review",
			zap.String("agent", a.Name))
		return nil
	}
	for _, side := range []engagement.Side{engagement.SideInput, engagement.SideOutput} {
		guardrail := a.Guardrail(side)
		if guardrail == nil {
			continue
		}
		op := l.Names.Find(guardrail.Tool)
		if op == nil {
			continue // not loaded yet
		}
		_, err := chat.InputArguments(op.Tool)
		if side == engagement.SideOutput {
			_, err = chat.OutputArguments(op.Tool)
		}
		if err == nil {
			_, err = o.guardrailChat().invoker(op.Toolset, op.Set)
		}
		if err != nil {
			return fmt.Errorf("%s: guardrails.%s of the agent %s cannot be asked: %w", a.Location, side, a.Name, err)
		}
	}
	return nil
}

// warnUnanswered logs a warning if nobody can decide the reviews of this reviewer.
func (o *Handler) warnUnanswered(l *agentset.Set, a *oagent.Agent, rule, reviewer string) {
	name := strings.TrimPrefix(reviewer, oagent.Scheme)
	isAgent := name != reviewer || l.Agents[name] != nil
	switch {
	case isAgent && l.Agents[name] == nil:
		o.logger.Warn("an agent is to review that this site does not have, so that it is asked only if another site with the same store has it",
			zap.String("agent", a.Name), zap.String("rule", rule), zap.String("reviewer", reviewer),
			zap.String("nearest", nearest.Name(name, slices.Values(slices.Sorted(maps.Keys(l.Agents))))))
	case isAgent && o.Reviewers[name] != nil && o.Reviewers[name].Ask != nil:
	case o.extras.pages.reviews == "":
		o.logger.Warn("an agent needs reviews, and reviewers have no endpoint here: see the subdirective reviews",
			zap.String("agent", a.Name), zap.String("rule", rule), zap.String("reviewer", reviewer))
	case isAgent && o.Reviewers[name] == nil:
		o.logger.Warn("an agent is to review, and no user answers for it: see the subdirective reviewer",
			zap.String("agent", a.Name), zap.String("rule", rule), zap.String("reviewer", reviewer))
	}
}

// serveExtras handles a request that does not go to the API: to an endpoint or to a model. It
// runs before any decision. answered reports whether it handled the request.
func (o *Handler) serveExtras(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (answered bool, err error) {
	if answered, err := o.extras.pages.answer(w, r); answered {
		return true, err
	}
	return o.serveChat(w, r, next)
}

// unmarshalExtra parses the subdirective at the current token of b if it belongs to the
// extras.
func (o *Handler) unmarshalExtra(b *directive.Block) (known bool, err error) {
	switch b.Val() {
	case "auditors":
		return true, b.List(&o.Auditors)
	case "reviewer":
		return true, o.unmarshalReviewer(b)
	case "chat":
		return true, o.unmarshalChat(b)
	}
	return false, nil
}

// unmarshalChat reads the subdirective chat. Syntax:
//
//	chat [<paths...>] {
//		upstream    <url>
//		roles       user | system | developer | assistant | tool...
//		allow_media
//		max_input   <size>
//		max_output  <size>
//		keep_alive  <duration> | off
//	}
func (o *Handler) unmarshalChat(outer *directive.Block) error {
	if o.Chat != nil {
		return outer.Err("chat is given twice: give all paths in one")
	}
	o.Chat = new(Chat)
	for _, p := range outer.RemainingArgs() {
		if err := checkChatPath(p); err != nil {
			return outer.Errf("chat %s: %v", p, err)
		}
		o.Chat.Paths = append(o.Chat.Paths, p)
	}
	b := directive.NewBlock(outer.Dispenser)
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		if err := o.Chat.unmarshalOption(b); err != nil {
			return err
		}
	}
	return nil
}

func (c *Chat) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "upstream":
		return b.Text(&c.Upstream)
	case "roles":
		return b.Each(&c.Roles, checkChatRole)
	case "allow_media":
		if b.NextArg() {
			return b.ArgErr()
		}
		c.AllowMedia = true
		return nil
	case "max_input":
		return b.Size(&c.MaxInput)
	case "max_output":
		return b.Size(&c.MaxOutput)
	case "keep_alive":
		return b.Duration(&c.KeepAlive)
	}
	return b.Unrecognized("chat")
}

// beside returns a passage for a request that does not go to the API. It contains the
// governing agent and the Engagement.
func (o *Handler) beside(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) (*passage, *refused) {
	p := &passage{Handler: o, w: w, r: r, next: next, began: time.Now()}
	p.repl, _ = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if next == nil {
		p.linked = o.agents.Current()
	} else {
		p.linked = o.agents.CurrentFor(r, next)
	}
	return p, p.findAgent()
}
