// Package replay evaluates changed rules over the calls that a running gateway has recorded (package oagent/replay): documents of
// agents, the rule of a toolset, and the tools of a changed OpenAPI document. It is a section of the app `agents`. The admin endpoint (admin.go)
// and the console use it.
package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/calls"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/replay"
)

func init() {
	site.Register(func() site.Section { return new(Section) })
}

const (
	defaultSince = "7d"
	maxTime      = 5 * time.Minute // of a replay
	maxNotes     = 20              // of a report
	maxNamed     = 50              // calls of a report that get the ID of their kept call
)

// Request says what to replay. It has documents of agents, Allow, or Lock.
type Request struct {
	Documents []Document `json:"documents,omitempty"` // of agents; with Lock, at most one OpenAPI document
	Allow     string     `json:"allow,omitempty"`     // a rule for Toolset
	Lock      bool       `json:"lock,omitempty"`      // tools that differ from the lock, those of Documents or of the documents in force
	Toolset   string     `json:"toolset,omitempty"`   // its name
	Since     string     `json:"since,omitempty"`     // a time, or a duration before now. Default: 7d
	Until     string     `json:"until,omitempty"`     // Default: now
	User      string     `json:"user,omitempty"`      // only calls of this user
}

// Document is a changed document.
type Document struct {
	Name string `json:"name"` // for messages
	Text string `json:"text"`
}

// Section replays rules. One replay runs at a time.
type Section struct {
	app     *app.App
	calls   *calls.Section
	guards  *guard.Guards
	running atomic.Bool
}

// Options implements site.Section.
func (s *Section) Options(*directive.Block) directive.Options { return nil }

// Provision implements site.Section.
func (s *Section) Provision(_ caddy.Context, a *site.App) (err error) {
	if s.app, err = site.Get[*app.App](a); err != nil {
		return err
	}
	if s.calls, err = site.Get[*calls.Section](a); err != nil {
		return err
	}
	s.guards, err = site.Get[*guard.Guards](a)
	return err
}

// invalid is the error of a Request that cannot be replayed.
func invalid(format string, values ...any) error {
	return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: fmt.Errorf(format, values...)}
}

// Run replays. The rules in force of agents are those of the handlers. The error is a caddy.APIError.
func (s *Section) Run(ctx context.Context, handlers []*guard.Handler, q *Request) (*replay.Report, error) {
	if !s.running.CompareAndSwap(false, true) {
		return nil, caddy.APIError{HTTPStatus: http.StatusConflict, Err: errors.New("another replay is running: wait until it has ended")}
	}
	defer s.running.Store(false)
	if q.Since == "" {
		q.Since = defaultSince
	}
	now := time.Now()
	times, err := calllog.ParseQuery(url.Values{"since": {q.Since}, "until": {q.Until}}, now)
	if err != nil {
		return nil, invalid("%w", err)
	}
	if times.To.IsZero() {
		times.To = now
	}
	r := &run{Section: s, Request: q, handlers: handlers, report: replay.NewReport(times.From, times.To)}
	limited, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	switch {
	case q.Lock:
		err = r.lock(limited)
	case q.Allow != "":
		err = r.allow(limited)
	case len(q.Documents) > 0:
		err = r.documents(limited)
	default:
		err = invalid("nothing to replay: give the changed documents of agents, or --allow, or --lock")
	}
	if limited.Err() != nil && ctx.Err() == nil {
		r.report.Incomplete, err = fmt.Sprintf("the replay has ended after %s: choose a shorter time range", maxTime), nil
	}
	if _, isAPI := errors.AsType[caddy.APIError](err); err != nil && !isAPI {
		err = caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err}
	}
	r.report.Finish()
	r.nameCalls(limited)
	return r.report, err
}

// run is one replay.
type run struct {
	*Section
	*Request
	handlers []*guard.Handler
	report   *replay.Report
}

// documents replays documents of agents.
func (r *run) documents(ctx context.Context) error {
	rules := make(map[string]replay.Rules)
	var notes []string
	for _, d := range r.Documents {
		agents, err := oagent.ReadAgents([]byte(d.Text), d.Name)
		if err != nil {
			return invalid("%w", err)
		}
		for _, a := range agents {
			of := replay.Rules{Changed: a}
			if rules[a.Name].Changed != nil {
				return invalid("agent %s is in two documents", a.Name)
			}
			var names []string
			for _, h := range r.handlers {
				set := h.Loader.Current()
				names = append(names, set.AgentNames()...)
				if served := set.Agents[a.Name]; served != nil && of.InForce == nil {
					of.InForce = served.Agent
					for _, fault := range oagent.AsLintErrors(a.Link(set.Names)) {
						notes = append(notes, fault.Error()) // names that the site does not have
					}
				}
			}
			if of.InForce == nil {
				return invalid("agent %s of %s is not in force, so it has no calls to replay%s", a.Name, d.Name, directive.DidYouMean(a.Name, names))
			}
			rules[a.Name] = of
			notes = append(notes, of.Notes()...)
		}
	}
	r.report.Notes = notes[:min(len(notes), maxNotes)]
	return r.engagements(ctx, replay.Engagements{Rules: rules})
}

// engagements replays the records of Engagements.
func (r *run) engagements(ctx context.Context, e replay.Engagements) error {
	if len(r.handlers) == 0 {
		return nil
	}
	opened, err := r.handlers[0].OpenGuard(ctx) // all share a store
	if err != nil {
		return err
	}
	e.Records, e.User = opened.Engagements, r.User
	return e.Run(ctx, r.report)
}

// kept calls each for the kept calls of a toolset, in pages.
func (r *run) kept(ctx context.Context, toolset string, each func(call *calllog.Call)) error {
	q := calllog.Query{From: r.report.Since, To: r.report.Until, Limit: calllog.MaxFound, Match: map[string]string{"toolset": toolset}}
	if r.User != "" {
		q.Match["user"] = r.User
	}
	for {
		found, err := r.calls.Find(ctx, q)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		for i := range found.Calls {
			if c := &found.Calls[i]; c.Toolset == toolset && c.Tool != "" && (r.User == "" || c.User == r.User) { // Find compares beginnings
				each(c)
			}
		}
		if q.Cursor = found.Next; q.Cursor == "" {
			return nil
		}
	}
}

// caseOf returns the case of a kept call.
func caseOf(c *calllog.Call) replay.Case {
	return replay.Case{At: c.Began, ID: c.ID, Engagement: c.Engagement, Tool: c.Tool, User: c.User, Arguments: replay.CutArguments(c.Arguments)}
}

// nameCalls gives calls of Engagements the IDs of the kept calls: of those of the tool that began before the entry of the record, the last.
func (r *run) nameCalls(ctx context.Context) {
	left := maxNamed
	for _, row := range slices.Concat(r.report.Rules, r.report.Mismatches) {
		for i := range row.Examples {
			c := &row.Examples[i]
			if left--; left < 0 || !strings.HasPrefix(c.ID, c.Engagement+".") {
				continue
			}
			// A failed search leaves the ID of the entry.
			found, _ := r.calls.Find(ctx, calllog.Query{From: c.At, To: c.At.Add(time.Minute), Limit: calllog.MaxFound, Match: map[string]string{"engagement": c.Engagement}})
			var began time.Time
			for _, k := range found.Calls {
				if strings.HasSuffix("."+c.Tool, "."+oagent.KebabName(k.Tool)) && !k.Began.After(c.At) && k.Began.After(began) {
					c.ID, began = k.ID, k.Began
				}
			}
		}
	}
}

// toolset returns the toolset of the request.
func (r *run) toolset() (*app.Toolset, error) {
	names := slices.Sorted(maps.Keys(r.app.Toolsets))
	if r.Toolset == "" && len(names) == 1 {
		r.Toolset = names[0]
	}
	if r.Toolset == "" {
		return nil, invalid("choose the toolset with --toolset: %s", strings.Join(names, ", "))
	}
	t, ok := r.app.Toolset(r.Toolset)
	if !ok {
		return nil, invalid("--toolset %.64q is not in the configuration%s", r.Toolset, directive.DidYouMean(r.Toolset, names))
	}
	return t, nil
}
