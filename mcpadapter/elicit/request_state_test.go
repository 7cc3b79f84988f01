package elicit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// The order of arguments is not part of what a state is bound to.
func TestBinding(t *testing.T) {
	bind := func(arguments string) string {
		return (&Request{Method: "tools/call", Target: "pay", User: "ada", Arguments: []byte(arguments)}).binding()
	}
	if bind(`{"a":1,"b":{"c":[2,3],"d":"é"}}`) != bind(` { "b" : {"d":"\u00e9", "c":[2, 3]}, "a":1 } `) {
		t.Error("space, order and escapes count")
	}
	if bind(``) != bind(`{}`) || bind(`null`) != bind(`{}`) {
		t.Error("no arguments are not the same as {}")
	}
	others := []string{bind(`{"a":9007199254740993}`), bind(`{"a":9007199254740992}`), bind(`{"a":"1"}`), bind(`{"a":1}`), bind(`{}`)}
	slices.Sort(others)
	if len(slices.Compact(others)) != 5 {
		t.Error("different arguments are bound alike")
	}
}

// A state is accepted only for the request and the user that it was issued to, and not too late.
func TestState_is_bound_to_request(t *testing.T) {
	sealer := seal.New([]byte(strings.Repeat("k", 32)))
	request := Request{Method: "tools/call", Target: "native", User: "ada", Sealer: func() (*seal.Sealer, *protocol.Fault) { return sealer, nil }}
	state, _ := request.seal(roundState{State: "secret state"})
	late := sealer.Seal([]byte(fmt.Sprintf(`{"until":%d,"state":"secret state"}`, time.Now().Add(-time.Second).Unix())), request.binding())
	for rule, c := range map[string]struct {
		state  string
		change func(*Request)
		ok     bool
	}{
		"same":            {state, func(*Request) {}, true},
		"other-method":    {state, func(r *Request) { r.Method = "prompts/get" }, false},
		"other-target":    {state, func(r *Request) { r.Target = "vault" }, false},
		"other-user":      {state, func(r *Request) { r.User = "eve" }, false},
		"other-arguments": {state, func(r *Request) { r.Arguments = []byte(`{"a":1}`) }, false},
		"expired":         {late, func(*Request) {}, false},
	} {
		r := request
		r.Params = []byte(`{"requestState":"` + c.state + `"}`)
		c.change(&r)
		resumed := call{Request: &r}
		f := resumed.resume()
		if c.ok {
			if f != nil || resumed.round.State != "secret state" {
				t.Errorf("%s: %q, %v", rule, resumed.round.State, f)
			}
			continue
		}
		if f == nil || f.Code != protocol.InvalidParams {
			t.Errorf("%s: %v", rule, f)
		}
	}
}
