package events

import (
	"fmt"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	celtypes "cel.dev/cel-go/common/types"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/internal/celenv"
	"github.com/fairwayhq/fairway/internal/identity"
)

// Limits of one evaluation that has a loop.
const (
	maxCost = 100_000 // CEL cost units
	maxTime = 100 * time.Millisecond
)

var environment = sync.OnceValues(func() (*celenv.Environment, error) {
	return celenv.New(celenv.Limits{Cost: maxCost},
		celenv.Variable{Name: "user", Type: celenv.Fields()},
		celenv.Variable{Name: "event", Type: cel.DynType},
		celenv.Variable{Name: "event_name", Type: cel.StringType},
		celenv.Variable{Name: "received_at", Type: cel.TimestampType})
})

// audience is the expression that decides which users may see an event.
type audience struct{ program *celenv.Program }

func compileAudience(expression string) (*audience, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	program, err := env.Compile(expression)
	if err != nil {
		return nil, err
	}
	if kind := program.Type().Kind(); kind != celtypes.BoolKind && kind != celtypes.DynKind {
		return nil, fmt.Errorf("it must be true or false; this expression has the type %s", program.Type())
	}
	return &audience{program}, nil
}

// has reports whether the expression is true. An error, as of a member that is missing, is false.
func (a *audience) has(e *events.Event, user *identity.User) bool {
	if a == nil {
		return false
	}
	fields := user.Fields()
	fields["id"] = user.ID
	variables, err := cel.NewActivation(map[string]any{
		"user": fields, "event": &celenv.Node{Raw: e.Body, Exact: true}, "event_name": e.Name, "received_at": e.Received.UTC(),
	})
	if err != nil {
		return false
	}
	value, err := a.program.EvaluateWithin(maxTime, variables)
	return err == nil && value == celtypes.True
}
