package replay

import (
	"errors"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestRun_one_at_a_time refuses a replay while another one runs, and allows the next.
func TestRun_one_at_a_time(t *testing.T) {
	s := new(Section)
	for running, want := range map[bool]int{true: http.StatusConflict, false: http.StatusBadRequest} {
		s.running.Store(running)
		_, err := s.Run(t.Context(), nil, &Request{Since: "yesterday"})
		if refused, ok := errors.AsType[caddy.APIError](err); !ok || refused.HTTPStatus != want {
			t.Errorf("running: %t: got %v, want status %d", running, err, want)
		}
		if !running && s.running.Load() {
			t.Error("the replay still runs after its end")
		}
	}
}
