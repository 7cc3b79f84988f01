package oagent

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/caddymodule/oagent/endpoints"
	"github.com/fairwayhq/fairway/caddymodule/oagent/guardrail"
	"github.com/fairwayhq/fairway/caddymodule/oagent/hosting"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
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
	o.agents, err = agentset.Load(agentset.Options{
		Files: paths, Matched: o.toolsets, Others: o.otherToolsets, Logger: o.logger,
		Hosted:      func(name string) bool { return hosting.Hosted(o.Models, name) },
		Check:       func(read []*oagent.Agent) error { return checkDocuments(o, read) },
		CheckRemote: checkRemote(o), Permit: func(a *oagent.Agent, names *agentset.Names) error { return o.accepted.Permit(a, names) },
	})
	if err != nil {
		return err
	}
	showMetrics(o)
	o.agents.Watch(func() {
		showMetrics(o)
		o.app.NotifyAgentEndpoints()
	})
	return nil
}

// showMetrics creates the metrics of all agents, so that they are exported before the first
// request.
func showMetrics(o *Handler) {
	for _, name := range o.agents.Last().AgentNames() {
		o.metrics.of(name)
	}
}

// provisionParts sets up the parts of the handler that do not guard the API: guardrails on model
// traffic, reviewing agents, and the endpoints. Agents and toolsets must be known.
func (o *Handler) provisionParts(ctx caddy.Context) (err error) {
	o.guardrails = &guardrail.Caller{Logger: o.logger}
	if o.Chat != nil {
		if err := o.Chat.Provision(o.logger); err != nil {
			return err
		}
		o.guardrails = o.Chat.Guardrails()
	}
	o.reviewers, err = reviewers.New(ctx, reviewers.Options{
		Agents: o.Reviewers, Path: strings.TrimRight(o.Reviews, "/"), Set: o.agents.Current, Guard: o.guard,
		Guardrails: o.guardrails, Logger: o.logger, Spans: &processSpans,
	})
	if err != nil {
		return err
	}
	o.background = o.host != nil
	for name := range o.Reviewers {
		o.background = o.background || o.reviewers.HasProgram(name)
	}
	o.endpoints = endpoints.New(endpoints.Options{
		Documents: o.Serve, Engagements: o.Engagements, Reviews: o.Reviews, Auditors: o.Auditors,
		Set: o.agents.Current, Guard: o.guard, Reviewers: o.reviewers, Host: o.host, Accept: o.accepted, Logger: o.logger,
		User: func(r *http.Request) engagement.User { return bind(o, r, nil).User },
		Govern: func(w http.ResponseWriter, r *http.Request) (oagent.Binding, bool) {
			m, refusal := newModelRequest(o, w, r, nil)
			return m.binding, refusal == nil
		},
	})
	return checkLinked(o)
}
