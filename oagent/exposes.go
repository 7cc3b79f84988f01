package oagent

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent/assertion"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// MaxExposedTotal is the maximum size of all exposed values together, in bytes of JSON.
const MaxExposedTotal = 256 << 10

// Exposed contains the values that an agent exposes to its user (OpenAgentSpec v1, exposes).
type Exposed struct {
	Object  jsontext.Value // name → value, in document order; {} if there is none
	Missing []error        // why other values are absent: *assertion.SelectionError each, which may quote values
}

// Exposed computes the values that the agent exposes. A value that cannot be computed is
// omitted, often because it does not exist yet.
func (g *Guard) Exposed(ctx context.Context, b Binding) (Exposed, error) {
	none := Exposed{Object: jsontext.Value("{}")}
	if b.Agent == nil || len(b.Agent.Exposes) == 0 {
		return none, nil
	}
	var exposed Exposed
	expose := func(t *engagement.Tx) (err error) {
		exposed, err = expose(ctx, b.Agent, t)
		return err
	}
	err := g.Engagements.Read(ctx, b.Key(), expose)
	if errors.Is(err, engagement.ErrNotFound) {
		err = expose(g.Engagements.Unbegun(b.ref()))
	}
	if err != nil {
		return none, err
	}
	return exposed, nil
}

func expose(ctx context.Context, a *Agent, t *engagement.Tx) (Exposed, error) {
	var missing []error
	v := &assertion.View{Tx: t}
	object := []byte{'{'}
	for i := range a.Exposes {
		before := len(object)
		if before > 1 {
			object = append(object, ',')
		}
		object = append(wire.AppendString(object, a.Exposes[i].Name), ':')
		var err error
		if object, err = a.Exposes[i].Value.Append(ctx, object, v); err == nil && len(object) > MaxExposedTotal {
			err = fmt.Errorf("%s: all exposed values together exceed the limit of %d bytes", a.Exposes[i].Value.Rule, MaxExposedTotal)
		}
		if err != nil {
			object = object[:before]
			missing = append(missing, err)
		}
	}
	if v.Unread.Any() {
		return Exposed{}, &engagement.UnreadError{Unread: v.Unread}
	}
	return Exposed{Object: append(object, '}'), Missing: missing}, ctx.Err()
}
