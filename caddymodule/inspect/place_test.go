package inspect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools/inspect"
)

// TestPlace_has_its_phases wants a place to have only its own phases, and inspectors of results to have the new ones by default.
func TestPlace_has_its_phases(t *testing.T) {
	for _, c := range []struct {
		place    Place
		config   string
		step     []inspect.Phase
		want     string // phases, or a word of the error
		rejected bool
	}{
		{OfToolset, `{}`, []inspect.Phase{inspect.Result, inspect.Error}, "[result error resources prompts]", false},
		{OfModel, `{}`, []inspect.Phase{inspect.Result, inspect.Error}, "[request response]", false},
		{OfModel, `{}`, inspect.Phases[:], "request response", false},
		{OfToolset, `{"phases":["result"]}`, []inspect.Phase{inspect.Result}, "[result]", false},
		{OfToolset, `{"phases":["request"]}`, []inspect.Phase{inspect.Request}, "no phase request", true},
		{OfModel, `{"phases":["result"]}`, []inspect.Phase{inspect.Result}, "no phase result", true},
		{OfModel, `{}`, []inspect.Phase{inspect.Arguments}, "add phases", true},
	} {
		s := inspect.Step{Phases: c.step}
		err := c.place.restrict(&s, json.RawMessage(c.config))
		got := fmt.Sprint(s.Phases)
		if err != nil {
			got = err.Error()
		}
		if (err != nil) != c.rejected || !strings.Contains(got, c.want) {
			t.Errorf("%s %s of %v: got %s, want %s", c.place, c.config, c.step, got, c.want)
		}
	}
}
