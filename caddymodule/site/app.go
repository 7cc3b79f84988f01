package site

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

func init() {
	caddy.RegisterModule(new(App))
	httpcaddyfile.RegisterGlobalOption("agents", parseAgents)
}

// Section is a part of the app `agents`: options of it, and what handlers share because of them. Its package calls Register.
//
// A section may also be a Starter, a Stopper and a caddy.CleanerUpper.
type Section interface {
	directive.Part

	// Provision sets up the section. It is called for each section that is linked, whether or not its options are set. If it
	// needs another section, it calls Get or Find, which provision that one first.
	Provision(ctx caddy.Context, a *App) error
}

// Starter is a Section with work to begin when all handlers are provisioned.
type Starter interface{ Start() error }

// Stopper is a Section with work to end before the store closes. It is called if Start was.
type Stopper interface{ Stop() }

// sections are the sections of the packages that are linked.
var sections directive.Parts[Section]

// Register adds a section to each app. It is for init.
func Register(create func() Section) { sections.Register(create) }

// App is the Caddy app `agents`. It owns what Fairway's handlers share. Packages add options to it when they are linked.
type App struct {
	sections []Section
	begun    []Section // whose Provision was called, after those that they need
	ctx      caddy.Context
	logger   *zap.Logger

	Resources Resources `json:"-"` // of the directive agent_auth

	logins       []siteLogin    // of the directive agent_login
	pages        []sitePages    // whose users these logins log in
	publicHealth []publicHealth // of endpoints

	started atomic.Bool     // set once all handlers are provisioned
	ready   chan struct{}   // closed at the end of Start, see AwaitStart
	ended   <-chan struct{} // closed when the configuration ends
	latest  []func()        // see OnStarted

	shared sync.Map // see Share
	events *eventEmitter
	digests
	checks []check
}

// check is a condition of Ready.
type check struct {
	reason string
	run    func(context.Context) error
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "agents",
		New: func() caddy.Module { return &App{sections: sections.New()} },
	}
}

// Sections returns the sections, which have the options of the app.
func (a *App) Sections() []Section { return a.sections }

// UnmarshalJSON gives each section its options.
func (a *App) UnmarshalJSON(data []byte) error {
	return directive.DecodeParts("agents", data, a.sections...)
}

// MarshalJSON returns the options of all sections.
func (a *App) MarshalJSON() ([]byte, error) { return directive.EncodeParts(a.sections...) }

// Of returns the app of the configuration that is being provisioned.
func Of(ctx caddy.Context) (*App, error) {
	loaded, err := ctx.App("agents")
	if err != nil {
		return nil, err
	}
	return loaded.(*App), nil
}

// Get returns the section of type S. The package of S registers it.
func Get[S Section](a *App) (S, error) {
	found, ok, err := Find[S](a)
	if err == nil && !ok {
		err = fmt.Errorf("the app has no section %s", reflect.TypeFor[S]())
	}
	return found, err
}

// Find returns the section that is a T, and whether it is linked. T is a section, or an interface with methods that its user needs.
func Find[T any](a *App) (found T, ok bool, err error) {
	for _, s := range a.sections {
		if found, ok = s.(T); ok {
			return found, true, a.provision(s)
		}
	}
	return found, false, nil
}

// SectionOf is like Get, for the configuration that is being provisioned.
func SectionOf[S Section](ctx caddy.Context) (S, error) {
	a, err := Of(ctx)
	if err != nil {
		var none S
		return none, err
	}
	return Get[S](a)
}

// provision calls Provision of a section once.
func (a *App) provision(s Section) error {
	if a.ctx.Context == nil || slices.Contains(a.begun, s) {
		return nil
	}
	at := len(a.begun)
	a.begun = append(a.begun, s)
	err := s.Provision(a.ctx, a)
	// Sections that s needs begin their work before it.
	a.begun = append(slices.Delete(a.begun, at, at+1), s)
	return err
}

// Provision sets up the sections.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.logger, a.ready, a.ended = ctx, ctx.Logger(), make(chan struct{}), ctx.Done()
	a.AddDigest(a)
	for _, s := range a.sections {
		if err := a.provision(s); err != nil {
			return err
		}
	}
	return nil
}

// Share returns the value that the handlers of one configuration share under key. The first
// handler that calls Share creates the value.
func Share[T any](a *App, key any, make func() T) T {
	if value, ok := a.shared.Load(key); ok {
		return value.(T)
	}
	value, _ := a.shared.LoadOrStore(key, make())
	return value.(T)
}

// Start begins the work of the sections.
func (a *App) Start() error {
	a.started.Store(true)
	for i, s := range a.begun {
		if starter, ok := s.(Starter); ok {
			if err := starter.Start(); err != nil { // Caddy does not call Stop after a failed Start
				stop(a.begun[:i+1]) // the last one may have started in part
				return err
			}
		}
	}
	for _, f := range a.latest {
		f()
	}
	close(a.ready)
	return nil
}

// OnStarted adds a function that is called when all sections have started.
func (a *App) OnStarted(f func()) { a.latest = append(a.latest, f) }

// Started reports whether all handlers are provisioned, so that what they have added is complete.
func (a *App) Started() bool { return a.started.Load() }

// Ended is closed when the configuration ends.
func (a *App) Ended() <-chan struct{} { return a.ended }

// errEnded is the error of AwaitStart if the configuration has ended.
var errEnded = errors.New("the configuration has ended before its start")

// AwaitStart waits until the app has started. Caddy starts apps in random order, so requests may arrive
// before. It returns an error if ctx or the configuration ends first.
func (a *App) AwaitStart(ctx context.Context) error {
	select {
	case <-a.ready:
		return nil
	default:
	}
	select {
	case <-a.ready:
		return nil
	case <-a.ended:
		return errEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop ends the work of the sections while the store is still open.
func (a *App) Stop() error {
	stop(a.begun)
	return nil
}

func stop(started []Section) {
	for _, s := range slices.Backward(started) {
		if stopper, ok := s.(Stopper); ok {
			stopper.Stop()
		}
	}
}

// Cleanup releases what the sections use.
func (a *App) Cleanup() error {
	a.events.close()
	for _, s := range slices.Backward(a.begun) {
		if c, ok := s.(caddy.CleanerUpper); ok {
			_ = c.Cleanup()
		}
	}
	return nil
}

// What Ready returns if requests cannot be served. Probes without credentials get these texts.
const (
	ReasonStarting = "starting"
	ReasonEnding   = "shutting down"
)

// AddCheck adds a condition of Ready, with the reason that probes get if it fails.
func (a *App) AddCheck(reason string, run func(context.Context) error) {
	a.checks = append(a.checks, check{reason, run})
}

// Ready returns the reason and an error if requests cannot be served: the configuration has not started, or a check of a section fails.
func (a *App) Ready(ctx context.Context) (reason string, err error) {
	select {
	case <-a.ready:
	default:
		return ReasonStarting, errors.New("the configuration has not started")
	}
	for _, c := range a.checks {
		if err := c.run(ctx); err != nil {
			return c.reason, err
		}
	}
	return "", nil
}

// parseAgents reads the global option agents.
func parseAgents(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next()
		return nil, d.Err("the global option agents is given twice; merge the blocks")
	}
	a := new(App).CaddyModule().New().(*App)
	if err := a.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "agents", Value: caddyconfig.JSON(a, nil)}, nil
}

// UnmarshalCaddyfile sets up the app from the global option. Syntax:
//
//	agents {
//		<option> ...
//	}
//
// The options are those of the sections that are linked.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume option name
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	return b.Read("agents", directive.PartOptions(b, a.sections...))
}

// Interface guards
var (
	_ caddy.App             = (*App)(nil)
	_ caddy.Provisioner     = (*App)(nil)
	_ caddy.CleanerUpper    = (*App)(nil)
	_ caddyfile.Unmarshaler = (*App)(nil)
)
