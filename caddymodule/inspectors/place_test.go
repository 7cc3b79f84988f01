package inspectors_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/inspect"
)

// TestPlace_has_its_phases wants a place to have only its own phases, and inspectors of results to have the new ones by default.
func TestPlace_has_its_phases(t *testing.T) {
	for _, c := range []struct {
		place    inspect.Place
		config   string
		want     string // phases, or a part of the error
		rejected bool
	}{
		{inspect.OfToolset, `{"inspector":"pii"}`, "[result error resources prompts]", false},
		{inspect.OfModel, `{"inspector":"pii"}`, "[request response]", false},
		{inspect.OfModel, `{"inspector":"secrets"}`, "request response", false},
		{inspect.OfToolset, `{"inspector":"pii","phases":["result"]}`, "[result]", false},
		{inspect.OfToolset, `{"inspector":"pii","phases":["request"]}`, "no phase request", true},
		{inspect.OfModel, `{"inspector":"pii","phases":["result"]}`, "no phase result", true},
		{inspect.OfModel, `{"inspector":"secrets","action":"review","reviewer":"team"}`, "add phases", true},
	} {
		ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
		chain, err := inspect.Load(ctx, c.place, []json.RawMessage{json.RawMessage(c.config)})
		cancel()
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(chain[0].Phases)
		}
		if (err != nil) != c.rejected || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.place, c.config, got, c.want)
		}
	}
}
