// Package serve delivers the events of a log as MCP Events does (SEP-3415): on request, on a stream, and to webhooks. It knows neither
// MCP's messages nor HTTP endpoints. Each event is checked for its receiver at each delivery.
//
//   - list.go has the types, and the arguments by which receivers filter. read.go reads what a receiver gets, for poll and stream.
//   - subscribe.go keeps subscriptions in the store. deliver.go delivers to them, and post.go sends the requests.
package serve

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/store"
)

// Source has the events of an API.
type Source interface {
	Types() []events.Type // nil while they are unknown
	Log() *events.Log
	Visible(ctx context.Context, e *events.Event, user *identity.User) bool
	Data(ctx context.Context, e *events.Event, user *identity.User) (jsontext.Value, bool) // what the user gets; false to withhold it
}

// Options configure a Server. All are required, except those with a default.
type Options struct {
	Source    Source
	Name      string                                     // of the subscriptions, on all nodes
	Open      func(context.Context) (store.Store, error) // returns the store
	SEPCodes  bool                                       // use the error codes of the SEP instead of those of the design sketch
	Sealer    *seal.Sealer                               // of what is secret in the store; default: no webhooks
	Transport *http.Transport                            // to webhooks, see NewTransport
	Delivered func(context.Context, *Delivery) error     // records a Delivery: before a poll or push, and after a request to a webhook
	Failed    func(error)                                // called with errors that no client gets
}

// A Delivery is of events to a user.
type Delivery struct {
	Mode   string // poll, push or webhook
	User   string
	Event  string // its name
	IDs    []string
	Failed bool // the webhook has not accepted the event, and it is given up
}

// A Server serves the events of one source. It is safe for concurrent use.
type Server struct {
	Options
	pauses    []time.Duration // between the attempts to deliver an event, ±20 %
	deliverer events.Worker

	mu       sync.Mutex
	polls    map[string]int // that wait, by user
	minute   int64
	verified map[string]int // receivers in this minute, by user
}

// New returns a Server.
func New(options Options) *Server {
	s := &Server{Options: options, polls: make(map[string]int), pauses: []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute}}
	s.deliverer = events.Worker{Open: s.Open, Key: "event-deliveries/" + s.Name, Work: s.deliverAll, Failed: s.Failed}
	return s
}

// An Error is a JSON-RPC error. Other errors of methods are for the operator.
type Error struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// The codes of MCP Events, as distances from the first one.
const notFound, forbidden, exhausted, unsupported, callbackEndpoint = 0, 1, 2, 3, 4

func (s *Server) refuse(code int, data map[string]any, format string, args ...any) *Error {
	first := -32011
	if s.SEPCodes {
		first = -32023
	}
	return &Error{first - code, fmt.Sprintf(format, args...), data}
}

func invalid(format string, args ...any) *Error {
	return &Error{Code: -32602, Message: fmt.Sprintf(format, args...)}
}

// params are the parameters of all methods.
type params struct {
	Name      string         `json:"name"`
	Arguments jsontext.Value `json:"arguments"`
	Cursor    string         `json:"cursor"` // null is "", too
	MaxAge    uint32         `json:"maxAgeMs"`
	MaxEvents uint32         `json:"maxEvents"`
	Timeout   uint32         `json:"timeoutMs"`
	TTL       jsontext.Value `json:"ttlMs"`
	Delivery  struct {
		Mode   string `json:"mode"`
		URL    string `json:"url"`
		Secret string `json:"secret"`
	} `json:"delivery"`
}

// A receiver is a user who gets the events of a type that pass a filter.
type receiver struct {
	*Server
	params
	user   *identity.User
	filter filter
}

// readParams reads the parameters of a method.
func (s *Server) readParams(user *identity.User, raw []byte) (*receiver, error) {
	if user.ID == "" {
		return nil, s.refuse(forbidden, nil, "events are for authenticated users: send credentials")
	}
	r := &receiver{Server: s, user: user}
	if err := json.Unmarshal(raw, &r.params); err != nil {
		return nil, invalid("a member of params has a wrong type, or is out of range")
	}
	return r, nil
}

// receive reads the parameters of a method about a type of events.
func (s *Server) receive(user *identity.User, raw []byte) (r *receiver, err error) {
	if r, err = s.readParams(user, raw); err != nil {
		return nil, err
	}
	t := s.typeOf(r.Name)
	if t == nil {
		return nil, s.noType(r.Name)
	}
	r.filter, err = r.newFilter(t)
	return r, err
}

// typeOf returns a type of events, or nil.
func (s *Server) typeOf(name string) *events.Type {
	types := s.Source.Types()
	if i := slices.IndexFunc(types, func(t events.Type) bool { return t.Name == name }); i >= 0 {
		return &types[i]
	}
	return nil
}

// noType returns the error for a type that does not exist.
func (s *Server) noType(name string) *Error {
	return s.refuse(notFound, map[string]any{"kind": "event"}, "unknown event %q; events/list returns the available ones", text.Cut(name, text.MaxQuoted))
}
