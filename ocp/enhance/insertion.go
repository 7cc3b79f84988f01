package enhance

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// An insertion writes one response body with its properties to dst. If a property's
// expression fails, the property is left out, only from that item if the response is
// a list. A failure that affects the whole response ends the insertion.
type insertion struct {
	enhancer  *Enhancer
	exchange  *Exchange
	dst       []byte
	body      []byte // known to be valid JSON
	copied    int    // bytes of body already copied to dst
	added     int    // bytes in dst that are not from body
	scratch   *buffer.Buffer
	variables variables
	ctx       context.Context
	outcome   Outcome
	failed    uint64 // the properties in outcome.Failures, one bit each
	exhausted uint64 // the properties that are not tried again in this response
}

func (i *insertion) run() {
	value := i.variables.body.Raw
	switch {
	case value.Kind() == '{':
		i.object(value, i.body)
	case value.Kind() == '[' && i.enhancer.options.Lists == EachItem:
		i.items(value)
	case value.Kind() == '[' && i.enhancer.options.Lists == WrapList:
		i.wrap()
	default:
		i.outcome.Reason = NotObject
		return
	}
	if i.outcome.Reason == "" && i.outcome.Added == 0 {
		i.outcome.Reason = NoProperty
		if len(i.outcome.Failures) > 0 {
			first := i.outcome.Failures[0]
			i.outcome.Reason, i.outcome.Property, i.outcome.Err = first.Reason, first.Property, first.Err
		}
	}
	i.dst = append(i.dst, i.body[i.copied:]...)
}

// object adds the properties to an object. Its closing brace is the last one in end.
func (i *insertion) object(value jsontext.Value, end []byte) {
	item, ok := i.variables.setItem(value).(*celenv.Object)
	if !ok {
		i.outcome.Reason = TooMany
		return
	}
	closing := bytes.LastIndexByte(end, '}')
	i.dst = append(i.dst, i.body[i.copied:closing]...)
	i.copied = closing
	i.members(i.enhancer.present(item), item.IsZeroValue())
}

// members computes the properties that are not present yet and writes them after the
// last member of an object. If empty is set, the object has no members.
func (i *insertion) members(present uint64, empty bool) {
	for n := range i.enhancer.properties {
		p := &i.enhancer.properties[n]
		if !p.appliesTo(i.exchange.Tool) {
			continue
		}
		if present&(1<<n) != 0 {
			i.outcome.Kept++
			continue
		}
		if i.exhausted&(1<<n) != 0 {
			continue
		}
		value, failure := i.compute(p)
		if failure != nil {
			i.note(n, failure)
			continue
		}
		if value == nil {
			continue
		}
		before := len(i.dst)
		if !empty {
			i.dst = append(i.dst, ',')
		}
		empty = false
		i.dst = append(append(i.dst, p.member...), value...)
		i.outcome.Added++
		if i.added += len(i.dst) - before; i.added > i.enhancer.options.Limits.Added {
			i.fail(AddedSize, p, fmt.Errorf("the properties have more than %d bytes together", i.enhancer.options.Limits.Added))
			return
		}
	}
}

// compute returns the JSON of one property, or nil if the expression returns no value.
// The result is valid until the next call.
func (i *insertion) compute(p *property) (value []byte, failure *Failure) {
	result, err := p.program.expr.EvaluateContext(i.ctx, &i.variables)
	if err != nil {
		return nil, &Failure{p.Name, reasonOf(err), err}
	}
	if result = celenv.Unwrap(result); result == nil {
		return nil, nil
	}
	value, err = celenv.AppendJSON(i.scratch.B[:0], result, i.enhancer.options.Limits.Added)
	i.scratch.B = value
	if err != nil {
		return nil, &Failure{p.Name, reasonOf(err), err}
	}
	if declared := p.declaredBy(i.exchange.Tool); declared != nil {
		if err := declared.Check(value); err != nil {
			return nil, &Failure{p.Name, Schema, err}
		}
	}
	return value, nil
}

// note records that the property at position n failed. A property that exceeded the
// cost or time limit is not tried again: each further item of a list would exceed it
// as well.
func (i *insertion) note(n int, failure *Failure) {
	if i.failed&(1<<n) == 0 {
		i.failed |= 1 << n
		i.outcome.Failures = append(i.outcome.Failures, *failure)
	}
	if failure.Reason == Cost || failure.Reason == Deadline {
		i.exhausted |= 1 << n
	}
}

// fail ends the insertion, so that the whole response is left unchanged.
func (i *insertion) fail(reason Reason, p *property, err error) {
	i.outcome.Reason, i.outcome.Property, i.outcome.Err = reason, p.Name, err
}

// items adds the properties to each object of a list.
func (i *insertion) items(list jsontext.Value) {
	objects, count := 0, 0
	for walk := strictjson.Into(list); walk.Next(); count++ {
		if walk.Value.Kind() == '{' {
			objects++
		}
	}
	switch {
	case count > i.enhancer.options.Limits.Items:
		i.outcome.Reason = TooMany
		return
	case objects == 0:
		i.outcome.Reason = NotObject
		return
	}
	at := bytes.IndexByte(i.body, '[') + 1
	for walk := strictjson.Into(list); walk.Next(); {
		at += separator(i.body[at:]) + len(walk.Value)
		if walk.Value.Kind() != '{' {
			continue
		}
		if i.ctx.Err() != nil {
			i.outcome.Reason, i.outcome.Err = Deadline, context.DeadlineExceeded
			return
		}
		if i.object(walk.Value, i.body[:at]); i.outcome.Reason != "" {
			return
		}
	}
}

// separator returns the number of bytes before the next item of a list.
func separator(rest []byte) int {
	for n, c := range rest {
		switch c {
		case ' ', '\t', '\r', '\n', ',':
		default:
			return n
		}
	}
	return len(rest)
}

// wrap makes the list a member of a new object and adds the properties to that object.
func (i *insertion) wrap() {
	name := i.enhancer.options.Wrap
	for n := range i.enhancer.properties {
		if p := &i.enhancer.properties[n]; p.Name == name && p.appliesTo(i.exchange.Tool) {
			i.fail(Value, p, errors.New("the list is wrapped under the same name; give one of them another"))
			return
		}
	}
	i.dst = append(i.dst, `{"`...)
	i.dst = append(i.dst, name...)
	i.dst = append(i.dst, `":`...)
	i.dst = append(i.dst, i.variables.body.Raw...)
	i.variables.item = &i.variables.body
	i.members(0, false)
	i.dst = append(i.dst, '}')
	i.copied = len(i.body)
}

// present returns which properties the object already has, one bit each.
func (e *Enhancer) present(o *celenv.Object) (bits uint64) {
	for n := range e.properties {
		if o.Has(e.properties[n].Name) {
			bits |= 1 << n
		}
	}
	return bits
}

// trim removes surrounding white space.
func trim(body []byte) jsontext.Value {
	return bytes.Trim(body, " \t\r\n")
}
