package oagent

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// MaxExposedTotal is the maximum size of all exposed values together, in bytes of JSON.
const MaxExposedTotal = 256 << 10

// Exposed contains the values that an agent exposes to its user (OpenAgentSpec v1, exposes).
type Exposed struct {
	Object  jsontext.Value // name → value, in document order; {} if there is none
	Missing []error        // why other values are absent: *SelectionError each, which may quote values
}

// Exposed computes the values that the agent exposes. A value that cannot be computed is
// omitted, often because it does not exist yet.
func (g *Guard) Exposed(ctx context.Context, b Binding) (Exposed, error) {
	none := Exposed{Object: jsontext.Value("{}")}
	if b.Agent == nil || len(b.Agent.Exposes) == 0 {
		return none, nil
	}
	var exposed Exposed
	expose := func(t *turn) (err error) {
		exposed, err = expose(ctx, b.Agent, t)
		return err
	}
	err := g.look(ctx, b.Key(), expose)
	if errors.Is(err, ErrNoEngagement) {
		err = expose(&turn{guard: g, record: newRecord(""), state: newState(&b, g.options.Now())})
	}
	if err != nil {
		return none, err
	}
	return exposed, nil
}

func expose(ctx context.Context, a *Agent, t *turn) (Exposed, error) {
	var missing []error
	v := &view{record: t.record, state: t.state}
	object := []byte{'{'}
	for i := range a.Exposes {
		before := len(object)
		if before > 1 {
			object = append(object, ',')
		}
		object = append(wire.AppendString(object, a.Exposes[i].Name), ':')
		var err error
		if object, err = a.Exposes[i].Value.Append(ctx, object, v); err == nil && len(object) > MaxExposedTotal {
			err = fmt.Errorf("%s: all that is exposed has more than %d bytes", a.Exposes[i].Value.Rule, MaxExposedTotal)
		}
		if err != nil {
			object = object[:before]
			missing = append(missing, err)
		}
	}
	if v.wants.any() {
		return Exposed{}, &wantsError{v.wants}
	}
	return Exposed{Object: append(object, '}'), Missing: missing}, ctx.Err()
}
