package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	guard "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/registry"
	"github.com/fairwayhq/fairway/store"
)

const (
	firstRead   = 2 * time.Second // that the start waits for the documents
	acceptRetry = time.Second     // after the store could not be opened
)

var (
	// errFromFile means that a file of the server has an agent with that name.
	errFromFile = errors.New("a file of the server defines the agent")
	// errNotLoaded means that the tools of the site are not known yet.
	errNotLoaded = errors.New("the tools of the site are not loaded yet")
)

func init() { guard.RegisterPart(func() guard.Part { return new(acceptance) }) }

// acceptance is the part of the handler oagent with the option accept.
type acceptance struct {
	// Accepts agent documents over HTTP. Default: all documents are from files.
	Accept *AcceptConfig `json:"accept,omitempty"`

	service *acceptService // nil without Accept
}

// Options implements guard.Part.
func (p *acceptance) Options(b *directive.Block) directive.Options {
	return directive.Options{"accept": func() error {
		return b.Single(func(b *directive.Block) (err error) {
			p.Accept, err = unmarshalAccept(b)
			return err
		})
	}}
}

// Provision implements guard.Part.
func (p *acceptance) Provision(ctx caddy.Context, o *guard.Handler) error {
	if p.Accept == nil {
		return nil
	}
	if err := p.Accept.Validate(o.Serve, func(identity string) bool { return o.Identities[identity] != nil }); err != nil {
		return err
	}
	a, err := site.SectionOf[*app.App](ctx)
	if err != nil {
		return err
	}
	p.service = newAcceptService(acceptOptions{
		Config: p.Accept, Logger: ctx.Logger(), Realm: realmOf(ctx, a, o.Serve), OpenStore: a.OpenStore,
		Set: func() *agentset.Set { return o.Loader.Current() }, Check: o.CheckAgent, Replace: o.Accept,
	})
	o.Acceptor = p.service
	return nil
}

// Start implements site.Starter.
func (p *acceptance) Start() error {
	if p.service != nil {
		p.service.Start()
	}
	return nil
}

// Stop implements site.Stopper.
func (p *acceptance) Stop() {
	if p.service != nil {
		p.service.Stop()
	}
}

// acceptOptions are what an acceptService needs of the oagent handler.
type acceptOptions struct {
	Config *AcceptConfig
	Logger *zap.Logger

	// Realm returns the name that separates the documents of handlers that share a store. It is the same
	// after a reload and on other nodes. It is called when all handlers are provisioned.
	Realm func() string
	// OpenStore opens the store.
	OpenStore func(context.Context) (store.Store, error)
	// Set returns the agents and tools of the handler.
	Set func() *agentset.Set
	// Check returns an error if the configuration does not support an agent.
	Check func(*oagent.Agent, *agentset.Set) error
	// Replace replaces the accepted agents of the handler.
	Replace func([]*oagent.Agent)
}

// acceptService accepts the documents of one oagent handler.
type acceptService struct {
	options acceptOptions
	policy  registry.Policy

	running context.Context // ends with Stop
	cancel  context.CancelFunc
	watch   sync.WaitGroup

	mu     sync.Mutex // held while documents are read and agents are replaced
	opened *registry.Registry
	known  map[string]*oagent.Agent // by digest: the agents that were read last
}

// newAcceptService returns an acceptService.
func newAcceptService(options acceptOptions) *acceptService {
	s := &acceptService{options: options, policy: registry.Policy{Capabilities: options.Config.Capabilities, Identities: options.Config.Identities}}
	s.running, s.cancel = context.WithCancel(context.Background())
	return s
}

// Start reads the documents, and then watches the store until Stop. If the store does not respond
// soon, the documents are read later.
func (s *acceptService) Start() {
	first := make(chan struct{})
	var once sync.Once
	s.watch.Go(func() {
		for s.running.Err() == nil {
			r, err := s.registry(s.running)
			if err == nil {
				r.Watch(s.running, func(ctx context.Context) error {
					err := s.refresh(ctx)
					if err == nil {
						once.Do(func() { close(first) })
					}
					return err
				})
				return
			}
			select {
			case <-time.After(acceptRetry):
			case <-s.running.Done():
			}
		}
	})
	select {
	case <-first:
	case <-time.After(firstRead):
		s.options.Logger.Warn("the store does not respond; accepted agents are missing until it does")
	}
}

// Stop ends watching the store.
func (s *acceptService) Stop() {
	s.cancel()
	s.watch.Wait()
}

// Permits reports whether the user may send and delete documents.
func (s *acceptService) Permits(user string) bool { return slices.Contains(s.options.Config.By, user) }

// Permit implements guard.Acceptor.
func (s *acceptService) Permit(a *oagent.Agent, names *agentset.Names) error {
	return s.policy.Check(a, names)
}

// Put checks a document and accepts it. created reports whether the agent is new. The error is
// errFromFile, errNotLoaded, or one of registry.Policy.Read or registry.Registry.Put.
func (s *acceptService) Put(ctx context.Context, c registry.Change) (entry registry.Entry, created bool, err error) {
	set := s.options.Set()
	switch {
	case s.isFromFile(set, c.Name):
		return entry, false, errFromFile
	case !set.Loaded:
		return entry, false, errNotLoaded
	}
	a, err := s.policy.Read(c.Source, c.Name, set.Names)
	if err != nil {
		return entry, false, err
	}
	if err := s.options.Check(a, set); err != nil {
		return entry, false, oagent.LintErrors{{Message: err.Error()}}
	}
	r, err := s.registry(ctx)
	if err != nil {
		return entry, false, err
	}
	c.Source = a.Source // without what is before and after it
	entry, created, err = r.Put(ctx, c)
	if err == nil {
		s.options.Logger.Info("accepted an agent document", zap.String("agent", c.Name), zap.String("user", c.By), zap.String("digest", entry.Digest))
		err = s.refresh(ctx)
	}
	return entry, created, err
}

// Delete deletes an accepted document. The error is errFromFile, or one of registry.Registry.Delete.
func (s *acceptService) Delete(ctx context.Context, name, user string, condition registry.Condition) error {
	if s.isFromFile(s.options.Set(), name) {
		return errFromFile
	}
	r, err := s.registry(ctx)
	if err == nil {
		err = r.Delete(ctx, name, condition)
	}
	if err == nil {
		s.options.Logger.Info("deleted an accepted agent document", zap.String("agent", name), zap.String("user", user))
		err = s.refresh(ctx)
	}
	return err
}

func (s *acceptService) isFromFile(set *agentset.Set, name string) bool {
	return set.Agents[name] != nil && !set.Agents[name].Accepted
}

// registry opens the store at its first use.
func (s *acceptService) registry(ctx context.Context) (*registry.Registry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened != nil {
		return s.opened, nil
	}
	opened, err := s.options.OpenStore(ctx)
	if err != nil {
		return nil, err
	}
	s.opened = registry.New(registry.Options{Store: opened, Scope: s.options.Realm(), Report: func(err error) {
		s.options.Logger.Error("accepted agent documents", zap.Error(err))
	}})
	return s.opened, nil
}

// refresh gives the current documents to the handler. If they cannot be read, the agents stay.
func (s *acceptService) refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	documents, err := s.opened.Documents(ctx)
	if err != nil {
		return err
	}
	agents := make([]*oagent.Agent, 0, len(documents))
	known := make(map[string]*oagent.Agent, len(documents))
	for _, d := range documents {
		a := s.known[d.Digest]
		if a == nil {
			if a, err = oagent.ReadAgent(d.Source, registry.Location(d.Name)); err != nil {
				s.options.Logger.Error("an accepted agent document is invalid for this version; it has no effect", zap.String("agent", d.Name), zap.Error(err))
				continue
			}
		}
		known[d.Digest] = a
		agents = append(agents, a)
	}
	s.known = known
	s.options.Replace(agents)
	return nil
}

// AcceptConfig configures which agent documents are accepted over HTTP. Documents are sent by PUT to the
// path below which they are served.
type AcceptConfig struct {
	// The path to which documents are sent. It must be that of serve. Default: that of serve.
	Path string `json:"path,omitempty"`

	// The ids of the users who may send and delete documents. Required. Default: none.
	By []string `json:"by,omitempty"`

	// The capabilities that accepted documents may have, as references in the form of agent
	// documents. A * at the end stands for any number of characters other than "." and "/", but
	// never for an agent of this site. The tools of guardrails count as capabilities. The list has
	// no restrictions: an accepted document may use a capability of it without any. Default: none.
	Capabilities []string `json:"capabilities,omitempty"`

	// The values that static_identity may have in accepted documents. Default: none.
	Identities []string `json:"identities,omitempty"`
}

// Validate rejects an invalid configuration. serve is the path of the documents. known reports
// whether an identity is configured.
func (c *AcceptConfig) Validate(serve string, known func(identity string) bool) error {
	switch {
	case serve == "":
		return errors.New("accept needs the path of the documents: add serve, as in: serve /agents")
	case c.Path != "" && strings.TrimRight(c.Path, "/") != strings.TrimRight(serve, "/"):
		return fmt.Errorf("accept %s: documents are sent to the path where they are served: write accept %s", c.Path, serve)
	}
	if len(c.By) == 0 || slices.Contains(c.By, "") {
		return errors.New("accept: name the users who may send agent documents, as in: by alice")
	}
	for _, pattern := range c.Capabilities {
		if err := registry.CheckPattern(pattern); err != nil {
			return fmt.Errorf("accept: capabilities: %w", err)
		}
	}
	for _, identity := range c.Identities {
		if !known(identity) {
			return fmt.Errorf("accept: identities: unknown identity %q: add it with the subdirective identity", identity)
		}
	}
	return nil
}

// unmarshalAccept parses the subdirective accept at the current token. Syntax:
//
//	accept [<path>] {
//		by           <users...>
//		capabilities <references...>
//		identities   <names...>
//	}
//
// where all of them may be repeated.
func unmarshalAccept(outer *directive.Block) (*AcceptConfig, error) {
	c := new(AcceptConfig)
	if outer.NextArg() {
		c.Path = outer.Val()
	}
	if outer.NextArg() {
		return nil, outer.ArgErr()
	}
	b := directive.NewBlock(outer.Dispenser)
	err := b.Read("accept", directive.Options{
		"by":           directive.To(b.List, &c.By),
		"capabilities": func() error { return b.Each(&c.Capabilities, registry.CheckPattern) },
		"identities":   directive.To(b.List, &c.Identities),
	})
	if err != nil {
		return nil, err
	}
	if len(c.By) == 0 {
		return nil, outer.Err("accept needs the users who may send agent documents, as in: by alice")
	}
	return c, nil
}
