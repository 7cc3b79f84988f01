package oagent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
	"github.com/fairwayhq/fairway/caddymodule/oagent/notify"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools/security"
)

// provisionAgents reads the agents and starts to watch their files.
func (o *Handler) provisionAgents() (err error) {
	if len(o.Files) == 0 {
		return errors.New("no files: give the file of an agent's document")
	}
	repl := caddy.NewReplacer()
	var paths []string
	for _, file := range o.Files {
		path, err := filepath.Abs(repl.ReplaceAll(file, ""))
		if err != nil {
			return err
		}
		if slices.Contains(paths, path) {
			return fmt.Errorf("%s is given twice", file)
		}
		paths = append(paths, path)
	}
	var checkRemote func(oagent.Reference) error
	if o.Host != nil {
		checkRemote = o.Host.CheckRemote()
	}
	o.Loader, err = agentset.Load(agentset.Options{
		Files: paths, Matched: o.Matched, Others: o.otherToolsets, Logger: o.logger,
		Hosted:      func(name string) bool { return o.Runs(&oagent.Agent{Name: name}) },
		Check:       func(read []*oagent.Agent) error { return checkDocuments(o, read) },
		CheckRemote: checkRemote, Permit: func(a *oagent.Agent, names *agentset.Names) error {
			if slices.Contains(o.LogOnly, allAgents) {
				_, _ = markLogOnly(a, "") // an agent without rules needs no mark
			}
			return errors.Join(checkPeople(o, a), o.Acceptor.Permit(a, names))
		},
	})
	if err != nil {
		return err
	}
	if o.Host != nil {
		if err := o.Host.CheckAgents(o.Loader.Last().AgentNames()); err != nil {
			return err
		}
	}
	for _, a := range o.Loader.Documents() {
		o.app.Site.AddDigest(a.Hash)
	}
	showMetrics(o)
	reportLogOnly(o)
	o.Loader.Watch(func() {
		showMetrics(o)
		reportLogOnly(o)
		o.guards.notifyEndpoints()
	})
	return nil
}

// showMetrics creates the metrics of all agents, so that they are exported before the first
// request.
func showMetrics(o *Handler) {
	for _, name := range o.Loader.Last().AgentNames() {
		o.metrics.of(name)
	}
}

// provisionRecords sets up the reviewing agents and the endpoints. Agents and toolsets must be known.
func (o *Handler) provisionRecords(ctx caddy.Context) (err error) {
	o.guardrails = &agentset.GuardrailCaller{Logger: o.logger}
	if o.Chat != nil {
		o.guardrails = o.Chat.Guardrails()
	}
	o.Reviewing, err = reviewers.New(ctx, reviewers.Options{
		Agents: o.Reviewers, TTL: time.Duration(cmp.Or(o.EngagementTTL, caddy.Duration(oagent.DefaultTTL))), Path: strings.TrimRight(o.Reviews, "/"), Set: o.Loader.Current, Guard: o.OpenGuard,
		Guardrails: o.guardrails, Logger: o.logger, Spans: &processSpans, Host: o.Host,
	})
	if err != nil {
		return err
	}
	o.background = o.Host != nil
	for name := range o.Reviewers {
		o.background = o.background || o.Reviewing.HasProgram(name)
	}
	var accept func(*endpoints.Request) error
	if o.Acceptor != nil {
		accept = o.Acceptor.Serve
	}
	o.endpoints = endpoints.New(endpoints.Options{
		Documents: o.Serve, Engagements: o.Engagements, Reviews: o.Reviews, Auditors: o.Auditors,
		Set: o.Loader.Current, Guard: o.OpenGuard, Reviewers: o.Reviewing, Originals: o.Originals.mayRead, Host: o.Host, Accept: accept, Logger: o.logger,
		StoreFailed: o.app.StoreErrors(o.logger, "reading the store of Engagements failed"),
		BoundBody:   func(r *http.Request) func() { return route.BoundBody(o.app, r) },
		User:        func(r *http.Request) engagement.User { return bind(o, r, nil).User },
		Govern: func(w http.ResponseWriter, r *http.Request) (oagent.Binding, bool) {
			c, refusal := identify(newRequest(o, w, r), o.Loader.Current())
			return c.binding, refusal == nil
		},
	})
	return checkLinked(o, siteroutes.IsAuthenticatedBefore(ctx, "oagent", o.Reviews))
}

// provisionNotices loads the notifiers of the handler.
func (o *Handler) provisionNotices(ctx caddy.Context) error {
	if len(o.NotifiersRaw) == 0 {
		return nil
	}
	loaded, err := ctx.LoadModule(o, "NotifiersRaw")
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	var notifiers []notify.Notifier
	for _, module := range loaded.([]any) {
		notifier, ok := module.(notify.Notifier)
		if !ok {
			return fmt.Errorf("notify: the module %T is not a notifier", module)
		}
		if o.Host == nil {
			if err := notify.CheckHosted(notifier); err != nil {
				return fmt.Errorf("notify: %w", err)
			}
		}
		notifiers = append(notifiers, notifier)
	}
	var outbox notify.Outbox
	if o.Host != nil {
		outbox = o.Host.Outbox()
	}
	o.Notices = notify.New(notify.Options{
		Notifiers: notifiers, Reviews: strings.TrimRight(o.Reviews, "/"), Set: o.Loader.Current, Guard: o.OpenGuard, Store: o.app.OpenStore,
		Outbox: outbox, Skip: o.Reviewing.DecidesAlone, Due: o.Reviewing.Due, Logger: o.logger,
	})
	return nil
}

// StaticIdentity is a set of credentials that a document's static_identity names.
type StaticIdentity struct {
	// The credentials to send to the API. Default: none; at least one is required.
	Credentials []json.RawMessage `json:"credentials,omitempty" caddy:"namespace=agents.credentials inline_key=in"`
}

// provisionIdentities checks the credentials, and which headers accompany them. The toolsets are known.
func (o *Handler) provisionIdentities(ctx caddy.Context) error {
	o.identities = make(map[string]credential.Set, len(o.Identities))
	for name, identity := range o.Identities {
		if name == "" || identity == nil || len(identity.Credentials) == 0 {
			return fmt.Errorf("identity %q: an identity needs a name and credentials", name)
		}
		checked, err := credential.Load(ctx, identity.Credentials, o.logger)
		if err != nil {
			return fmt.Errorf("identity %q: %w", name, err)
		}
		o.identities[name] = checked
	}
	var err error
	for _, name := range o.ForwardHeaders {
		if canonical := http.CanonicalHeaderKey(name); httpheader.MayAccompany(canonical, nil) && !httpheader.Forwarded(canonical, nil) {
			return fmt.Errorf("forward_headers %s has no effect here: plain requests carry it anyway, and tool calls only if forward_headers of their toolset lists it", name)
		}
	}
	if o.forwardHeaders, err = credential.Forwarded(o.ForwardHeaders); err != nil || len(o.identities) == 0 {
		return err
	}
	forwarded := slices.Clone(o.forwardHeaders)
	for _, t := range o.Matched {
		forwarded = append(forwarded, t.ForwardHeaders...)
	}
	siteroutes.WarnIfDropped(ctx, "oagent", forwarded, o.logger)
	return nil
}

// currentIdentity returns the credentials of a static_identity. A run that an earlier configuration has
// started may name one that is not configured.
func (o *Handler) currentIdentity(ctx context.Context, name string) (*security.Supplement, error) {
	credentials, ok := o.identities[name]
	if !ok {
		return nil, fmt.Errorf("identity %s is not configured", name)
	}
	return credentials.Current(ctx)
}

// StaticIdentity returns a function that adds the credentials of a static_identity to a request.
func (o *Handler) StaticIdentity(name string) func(*http.Request) error {
	return func(r *http.Request) error {
		with, err := o.currentIdentity(r.Context(), name)
		with.Apply(r)
		return err
	}
}
