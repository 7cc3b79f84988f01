package events

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/events/serve"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/tools/result"
)

// protocol is what inspectors get as the protocol of an event.
const protocol = "events"

// A Source has the events of a toolset. It is safe for concurrent use.
type Source struct {
	name     string // of the toolset
	toolset  *app.Toolset
	site     site.Site
	log      *events.Log
	audience *audience // nil if no user gets them
	shapes   map[string]*Event
	typeAt   []string
	types    atomic.Pointer[types]
	memory   *result.Memory
	starter  *starter
	servers  []*serve.Server
	refusing sync.Mutex
	refused  map[string]refused // by reason
	cancel   func()             // ends the updates of types
	logger   *zap.Logger
}

// Toolset returns the name of the toolset.
func (s *Source) Toolset() string { return s.name }

// Log returns the log of the events. Their names are those of Types.
func (s *Source) Log() *events.Log { return s.log }

// Types returns the types of events that users can get, in the order of the document. The slice must not be changed. It is nil until the
// document is loaded.
func (s *Source) Types() []events.Type { return s.types.Load().listed }

// OnChange registers a function that is called when Types may have changed. Cancel removes it.
func (s *Source) OnChange(changed func()) (cancel func()) { return s.toolset.Loader.OnChange(changed) }

// Visible reports whether a user may see an event. It is to be asked for each delivery.
func (s *Source) Visible(_ context.Context, e *events.Event, user *identity.User) bool {
	t := s.types.Load().byName[e.Name]
	return t != nil && !t.shape.Hide && user.ID != "" && s.audience.has(e, user)
}

// Data returns what a user gets of an event: its body with the selected members, after the inspectors of the toolset. It returns
// false if the event must be withheld.
func (s *Source) Data(ctx context.Context, e *events.Event, user *identity.User) (jsontext.Value, bool) {
	body := []byte(e.Body)
	if t := s.types.Load().byName[e.Name]; t != nil && t.shape.query != nil {
		var err error
		if body, err = t.shape.query.Append(ctx, result.Limit{Memory: s.memory, Owner: share.OwnerOf(user.ID, "")}, nil, body); err != nil {
			s.logger.Warn("an event is withheld: select failed", zap.String("event", e.Name), zap.String("id", e.ID), zap.String("reason", result.ShortReason(err)))
			return nil, false
		}
	}
	inspection := &route.Inspection{
		Chain: s.toolset.Inspect, LogOnly: s.toolset.LogOnly.Inspect, Toolset: s.name, Protocol: protocol, User: user.ID, Limit: events.MaxSize, Logger: s.logger,
	}
	passed, err := inspection.Response(ctx, http.StatusOK, http.Header{"Content-Type": {"application/json"}}, &buffer.Buffer{B: append([]byte(nil), body...)})
	if err != nil {
		return nil, false // logged
	}
	return passed.B, true
}
