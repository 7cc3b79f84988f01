// Package declared reads which events the API of an OpenAPI document sends: its webhooks, x-webhooks and callbacks, and the schemas
// that Stripe marks with x-stripeEvent.
package declared

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Limits of what is read of a document.
const (
	maxEvents      = 2000
	maxDescription = 4 << 10 // bytes
	maxSchema      = 64 << 10
	maxSteps       = 100_000 // of the search for properties
)

// An Event is an event of a document.
type Event struct {
	events.Type
	Key string // in the document
	Err error  // why it cannot be used
}

// Read returns the events of a document, in its order. TypeAt says where a body or the headers have the type of the event, as
// signature.Scheme does. The name of an event is the only value that the type can have, if the document says so. Otherwise it is the key.
func Read(d *openapi.Document, typeAt []string) []Event {
	r := &reader{typeAt: typeAt, schemas: schema.NewTranslator(schema.Auto, schema.Output), names: make(map[string]bool)}
	for _, member := range []string{"webhooks", "x-webhooks"} {
		for key, item := range members(d.Root().At(member)) {
			r.item(key, item)
		}
	}
	for _, item := range members(d.Root().At("paths")) {
		for _, operation := range members(item) {
			for key, callback := range members(operation.At("callbacks")) {
				for _, item := range members(callback) {
					r.item(key, item)
				}
			}
		}
	}
	for key, s := range members(d.Root().At("components").At("schemas")) {
		if name := s.At("x-stripeEvent").Get("type").Text(); name != "" && len(r.all) < maxEvents {
			r.add(Event{Key: key, Type: events.Type{Name: name, Description: s.Get("description").Text()}})
		}
	}
	return r.all
}

// members yields the members of an object, each with its $ref resolved. A $ref that cannot be resolved stays.
func members(object openapi.Place) iter.Seq2[string, openapi.Place] {
	return func(yield func(string, openapi.Place) bool) {
		for _, m := range object.Members() {
			place := openapi.Place{Node: m.Value, File: object.File}
			if target, err := place.Resolve(); err == nil {
				place = target
			}
			if !yield(m.Name, place) {
				return
			}
		}
	}
}

// reader collects the events of a document.
type reader struct {
	typeAt  []string
	schemas *schema.Translator
	names   map[string]bool // by Normal
	steps   int             // of property
	all     []Event
}

func (r *reader) add(e Event) {
	if normal := Normal(e.Name); e.Err == nil && r.names[normal] {
		e.Err = fmt.Errorf("another event has the name %s", e.Name)
	} else if e.Err == nil {
		r.names[normal] = true
	}
	e.Description = text.Cut(strings.TrimSpace(e.Description), maxDescription)
	r.all = append(r.all, e)
}

// item adds the event of a path item, which describes the request that the API sends.
func (r *reader) item(key string, item openapi.Place) {
	if len(r.all) == maxEvents {
		return
	}
	operation := item.At("post")
	if operation.Node == nil {
		operation = item.At("put")
	}
	e := Event{Key: key, Type: events.Type{Name: key}}
	e.Description = cmp.Or(operation.Get("description").Text(), operation.Get("summary").Text(), item.Get("description").Text())
	body, err := operation.At("requestBody").Resolve()
	var payload openapi.Place
	switch {
	case item.IsRef() || err != nil:
		e.Err = errors.New("a $ref of it leads nowhere")
	case operation.Kind() != '{':
		e.Err = errors.New("it has neither post nor put")
	default:
		e.Err = errors.New("it has no body in JSON")
		for mediaType, media := range members(body.At("content")) {
			if httpheader.IsJSON(httpheader.MediaType(mediaType)) || mediaType == "application/x-www-form-urlencoded" {
				payload, e.Err = media.At("schema"), nil
				break
			}
		}
	}
	if e.Err == nil {
		e.Name = cmp.Or(r.nameOf(payload, item, operation), key)
		if translated := r.schemas.Translate(payload); len(translated.Text()) <= maxSchema {
			e.Payload = bytes.Clone(translated.Text())
		}
	}
	r.add(e)
}

// nameOf returns the only type that the events of a schema or a header can have, or "".
func (r *reader) nameOf(payload, item, operation openapi.Place) string {
	var parts []string
	for _, at := range r.typeAt {
		place := payload
		pointer, ok := strings.CutPrefix(at, "/")
		if ok {
			for name := range strings.SplitSeq(pointer, "/") {
				place = r.property(place, name)
			}
		} else {
			place = openapi.Place{}
			for _, from := range []openapi.Place{item, operation} {
				for _, node := range from.At("parameters").Items() {
					parameter, err := from.Item(node).Resolve()
					if err == nil && strings.EqualFold(parameter.Get("name").Text(), at) {
						place = parameter.At("schema")
					}
				}
			}
		}
		if place.Node == nil && ok {
			continue // as the action of an event of GitHub that has none
		}
		value := strictjson.Text(schema.Single(place))
		if value == "" {
			return ""
		}
		parts = append(parts, value)
	}
	return strings.Join(parts, ".")
}

// property returns the schema of a property, which may be in a part of an allOf.
func (r *reader) property(of openapi.Place, name string) openapi.Place {
	of, err := of.Resolve()
	if r.steps++; err != nil || r.steps > maxSteps {
		return openapi.Place{}
	}
	if found := of.At("properties").At(name); found.Node != nil {
		return found
	}
	for _, part := range of.At("allOf").Items() {
		if found := r.property(of.At("allOf").Item(part), name); found.Node != nil {
			return found
		}
	}
	return openapi.Place{}
}

// Normal returns a name for comparison: documents write batch_completed or /BATCH-COMPLETED for batch.completed.
func Normal(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }), "-")
}
