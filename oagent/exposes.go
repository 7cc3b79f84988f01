package oagent

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// MaxExposedTotal is how many bytes of JSON all that an agent exposes may have.
const MaxExposedTotal = 256 << 10

// Exposed is what an agent tells its user of an Engagement (OpenAgentSpec v1,
// exposes).
type Exposed struct {
	Object  jsontext.Value // name and value of each, in the order of the document; {} if there is none
	Missing []error        // why others are not there: a *SelectionError each, which may quote values
}

// Exposed computes what the agent exposes. A value that cannot be computed is left
// out: often it is not there yet.
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
