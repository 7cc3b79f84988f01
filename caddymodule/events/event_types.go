package events

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/events/declared"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/result"
	"github.com/fairwayhq/fairway/tools/schema"
)

// An Event changes an event of the document, or declares one.
type Event struct {
	// A file with the JSON Schema of the body, for an event that the document does not have. Placeholders are replaced. Default: none.
	Schema string `json:"schema,omitempty"`

	// The name for clients. Default: the type that the API sends.
	Rename string `json:"rename,omitempty"`

	// The description for clients. Default: that of the document.
	Description string `json:"description,omitempty"`

	// Whether no user gets the event. It may still start an agent. Default: false.
	Hide bool `json:"hide,omitempty"`

	// A jq expression that makes what users get of the body. Default: the whole body.
	Select string `json:"select,omitempty"`

	payload jsontext.Value // of Schema
	query   *result.Query  // of Select
}

// eventType is a type of events.
type eventType struct {
	events.Type
	shape    *Event
	compiled func() (*schema.Compiled, error) // nil without a schema
}

// types are the types of a source. They are immutable.
type types struct {
	isLoaded bool
	listed   []events.Type
	byName   map[string]*eventType // by the name for clients
	byType   map[string]*eventType // by the type that the API sends, see declared.Normal
}

// load reads the types of the document that is loaded. It returns an error if an option is about none of them.
func (s *Source) load() error {
	t := &types{byName: make(map[string]*eventType), byType: make(map[string]*eventType)}
	var all []declared.Event
	if loaded := s.toolset.Loader.Document(); loaded != nil {
		t.isLoaded = true
		key := s.toolset.Key
		d, err := openapi.Read(loaded.Data, openapi.Options{Location: loaded.Location, Refs: key.Refs, Limits: openapi.Limits{Size: key.MaxDocument}})
		if err != nil {
			return err
		}
		all = declared.Read(d, s.typeAt)
	}
	known := make(map[string]bool)
	for i := range all {
		if all[i].Err != nil {
			s.logger.Warn("an event of the document cannot be received", zap.String("event", all[i].Key), zap.NamedError("reason", all[i].Err))
			continue
		}
		known[all[i].Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(s.shapes)) {
		if shape := s.shapes[name]; shape.Schema != "" {
			all = append(all, declared.Event{Key: name, Type: events.Type{Name: name, Payload: shape.payload}})
		} else if !known[name] && t.isLoaded {
			return fmt.Errorf("event %s: the document has none of this name%s; if it has none, add: schema FILE", name, text.DidYouMean(text.Nearest(name, maps.Keys(known))))
		}
	}
	for i := range all {
		if all[i].Err == nil {
			if err := t.add(&all[i].Type, s.shapes[all[i].Name]); err != nil {
				return err
			}
		}
	}
	s.types.Store(t)
	return nil
}

// add adds a type with its changes, which may be nil.
func (t *types) add(declaredType *events.Type, shape *Event) error {
	e := &eventType{Type: *declaredType, shape: cmp.Or(shape, new(Event))}
	e.Name, e.Description = cmp.Or(e.shape.Rename, e.Name), cmp.Or(e.shape.Description, e.Description)
	wireType := declared.Normal(declaredType.Name)
	if t.byName[e.Name] != nil || t.byType[wireType] != nil {
		return fmt.Errorf("two events have the name %s: rename one of them, or remove its schema", e.Name)
	}
	if payload := e.Payload; payload != nil {
		e.compiled = sync.OnceValues(func() (*schema.Compiled, error) { return schema.CompileBounded(payload) })
	}
	if e.shape.Select != "" {
		e.Payload = nil // it is that of the body
	}
	t.byName[e.Name], t.byType[wireType] = e, e
	if !e.shape.Hide {
		t.listed = append(t.listed, e.Type)
	}
	return nil
}

// find returns the type of an event that the API has sent with a type, or nil. Without one it is the only type of the source.
func (t *types) find(sent string) *eventType {
	if sent == "" && len(t.byType) == 1 {
		for _, only := range t.byType {
			return only
		}
	}
	return t.byType[declared.Normal(sent)]
}

// check returns an error if a body does not fit the schema.
func (t *eventType) check(body jsontext.Value) error {
	if t.compiled == nil {
		return nil
	}
	compiled, err := t.compiled()
	if err != nil {
		return nil //nolint:nilerr // a schema that cannot be used refuses nothing
	}
	decoded, err := strictjson.Decode(body)
	if err == nil {
		err = compiled.Validate(decoded)
	}
	if err != nil {
		return errors.New("the body does not fit the schema of the event") // the error of the schema may quote values
	}
	return nil
}
