package otcadapter

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// upstreamHealthFor is how long what was found out of the API's health holds.
	upstreamHealthFor = 5 * time.Second

	// upstreamHealthTimeout is how long the API may take to say how it is.
	upstreamHealthTimeout = 5 * time.Second
)

// An UpstreamHealth asks the API how it is. An error means that it is not well.
type UpstreamHealth func(ctx context.Context) error

// upstreamState is what the API said last. It is asked by one request at a time,
// and by none within upstreamHealthFor: the endpoint is open to everybody.
type upstreamState struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

func (u *upstreamState) check(ctx context.Context, ask UpstreamHealth) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Now().Before(u.until) {
		return u.err
	}
	// A client that goes away must not make the API look ill to the next one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), upstreamHealthTimeout)
	defer cancel()
	u.err = ask(ctx)
	u.until = time.Now().Add(upstreamHealthFor)
	return u.err
}

// serveHealth says whether calls can be expected to work (OTC 1.0, Server Health
// Check): all documents are loaded, and the API is well if it is asked.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request, c *catalog, upstream UpstreamHealth) {
	if c.partial || !c.loaded() {
		s.refuse(w, notLoaded(s.options.RetryAfter), otcStandard)
		return
	}
	if upstream != nil {
		if err := s.health.check(r.Context(), upstream); err != nil {
			f := unavailable("the API behind the tools is not well", upstreamHealthFor)
			f.developer = err.Error()
			s.refuse(w, f, otcStandard)
			return
		}
	}
	writeAnswer(w, http.StatusOK, []byte(`{"$schema":"`+otcStandard.schema+`","status":"healthy"}`))
}
