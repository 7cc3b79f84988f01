package replay

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/replay"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/lock"
	"github.com/fairwayhq/fairway/tools/overlay"
	"github.com/fairwayhq/fairway/tools/rule"
)

// notKept is why a rule of a toolset cannot be decided.
const notKept = "arguments, groups or claims that the rule reads are not recorded"

// allow replays a rule of a toolset. If it reads arguments, the calls of agents come from their Engagements, which have them. All others are kept calls,
// which have the groups of the user.
func (r *run) allow(ctx context.Context) error {
	if len(r.Documents) > 0 {
		return invalid("a rule and documents are both given: replay them one after the other")
	}
	changed, err := rule.Compile(r.Allow)
	if err != nil {
		return invalid("the rule (--allow): %w", err)
	}
	toolset, err := r.toolset()
	if err != nil {
		return err
	}
	set := toolset.Loader.Toolset()
	if set == nil {
		return invalid("the document of toolset %s is not loaded", toolset.Name)
	}
	fromRecords := strings.Contains(r.Allow, "arguments")
	if fromRecords {
		if err := r.engagements(ctx, replay.Engagements{Judge: r.judge(toolset, changed)}); err != nil {
			return err
		}
	}
	return r.kept(ctx, toolset.Name, func(call *calllog.Call) {
		if fromRecords && call.Engagement != "" {
			return
		}
		c := caseOf(call)
		c.Recorded = replay.Decision{Verdict: replay.Allowed}
		if call.Outcome == string(tools.Unauthorized) {
			if !strings.Contains(call.Reason, route.RefusedByRule) {
				return // the rule was not evaluated
			}
			c.Recorded = refusedByRule
		}
		if t, ok := set.Tool(call.Tool); ok {
			user, complete := identity.Unknown(call.User), len(call.Arguments) == call.Sent || call.Sent == len("{}")
			if n := len(call.Groups); n > 0 && n < keptcall.MaxGroups {
				user.Groups, user.NoGroups = call.Groups, ""
			}
			arguments := call.Arguments
			if complete && len(arguments) == 0 {
				arguments = jsontext.Value("{}")
			}
			if strings.Contains(string(arguments), calllog.Omitted) {
				arguments, complete = nil, false
			}
			of := rule.NewSubject(user)
			c.InForce, c.Changed = decide(toolset.Allow, of, t, toolset.Name, arguments, complete), decide(changed, of, t, toolset.Name, arguments, complete)
		} else {
			gone := replay.Decision{Unknown: "the toolset no longer has the tool"}
			c.InForce, c.Changed = gone, gone
		}
		r.report.Add(c)
	})
}

var refusedByRule = replay.Decision{Verdict: replay.Refused, Rule: "allow"}

// decide evaluates a rule; nil allows everything.
func decide(r *rule.Rule, of rule.Subject, t *tools.Tool, toolset string, arguments jsontext.Value, complete bool) replay.Decision {
	if r == nil {
		return replay.Decision{Verdict: replay.Allowed}
	}
	switch allowed, decided := r.Recorded(of, t, toolset, arguments, complete); {
	case !decided:
		return replay.Decision{Verdict: replay.Allowed, Unknown: notKept}
	case allowed:
		return replay.Decision{Verdict: replay.Allowed}
	}
	return refusedByRule
}

// judge returns what decides about the calls of Engagements by the rules of a toolset.
func (r *run) judge(toolset *app.Toolset, changed *rule.Rule) replay.Judge {
	find := func(name string) *tools.Tool {
		for _, h := range r.handlers {
			if from, tool, ok := h.Loader.Last().Names.Tool(name); ok && from == toolset.Name {
				return tool
			}
		}
		return nil
	}
	return func(user engagement.User, name string, inputs jsontext.Value) (inForce, after replay.Decision, of bool) {
		t := find(name)
		if t == nil {
			return inForce, after, false
		}
		subject := rule.NewSubject(identity.Unknown(user.ID))
		return decide(toolset.Allow, subject, t, toolset.Name, inputs, inputs != nil), decide(changed, subject, t, toolset.Name, inputs, inputs != nil), true
	}
}

// lock finds the calls of tools that differ from the lock, which withholds them.
func (r *run) lock(ctx context.Context) error {
	changes, err := r.lockChanges(ctx)
	if err != nil {
		return err
	}
	for toolset, all := range changes {
		kinds := make(map[string]lock.Kind, len(all))
		for i := range all {
			kinds[all[i].Tool] = all[i].Kind
		}
		if err := r.kept(ctx, toolset, func(call *calllog.Call) {
			c := caseOf(call)
			c.Recorded.Verdict, c.InForce.Verdict, c.Changed.Verdict = replay.Allowed, replay.Allowed, replay.Allowed
			if kind := kinds[call.Tool]; kind == lock.Changed || kind == lock.Gone {
				c.Changed = replay.Decision{Verdict: replay.Refused, Rule: "lock: " + string(kind)}
			}
			r.report.Add(c)
		}); err != nil {
			return err
		}
	}
	return nil
}

// lockChanges returns by toolset how its tools differ from its lock: the tools of the given document, or those of the documents in force.
func (r *run) lockChanges(ctx context.Context) (map[string][]lock.Change, error) {
	if len(r.Documents) == 0 {
		changes := make(map[string][]lock.Change)
		for _, d := range r.app.OpenDocuments {
			if all := d.LockChanges(); len(all) > 0 && (r.Toolset == "" || r.Toolset == d.Key.Name) {
				changes[d.Key.Name] = all
			}
		}
		return changes, nil
	}
	toolset, err := r.toolset()
	switch {
	case err != nil:
		return nil, err
	case len(r.Documents) > 1 || r.Allow != "":
		return nil, invalid("give --lock one OpenAPI document, and nothing else")
	case toolset.Key.Lock == "":
		return nil, invalid("toolset %s has no lock, see the option lock", toolset.Name)
	}
	key, data := toolset.Key, []byte(r.Documents[0].Text)
	if prepare := key.Preparation(new([]overlay.Warning)); prepare != nil {
		if data, err = prepare(data); err != nil {
			return nil, invalid("%s: %w", r.Documents[0].Name, err)
		}
	}
	set, _, err := key.Build(ctx, data, key.Address, nil)
	if err != nil {
		return nil, invalid("%s: %w", r.Documents[0].Name, err)
	}
	pinned, err := lock.ReadFile(key.Lock)
	if err != nil {
		return nil, app.ExplainLock(key, err)
	}
	if err := pinned.Check(set); err != nil {
		return nil, invalid("%w", err)
	}
	return map[string][]lock.Change{toolset.Name: pinned.Compare(set)}, nil
}
