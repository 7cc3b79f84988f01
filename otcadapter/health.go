package otcadapter

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// upstreamHealthTTL is how long the result of a health check is cached.
	upstreamHealthTTL = 5 * time.Second

	// upstreamHealthTimeout limits the duration of a health check.
	upstreamHealthTimeout = 5 * time.Second
)

// An UpstreamHealth checks the health of the API. An error means that the API is unhealthy.
type UpstreamHealth func(ctx context.Context) error

// upstreamState caches the result of the last health check. The endpoint is public, so there is
// only one check at a time, and none within upstreamHealthTTL after the last.
type upstreamState struct {
	mu    sync.Mutex
	until time.Time
	err   error
}

// check returns the cached result, or makes a health check.
func (u *upstreamState) check(ctx context.Context, probe UpstreamHealth) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if time.Now().Before(u.until) {
		return u.err
	}
	// If the client disconnects, the check continues: a canceled check would report an
	// unhealthy API to the next client.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), upstreamHealthTimeout)
	defer cancel()
	u.err = probe(ctx)
	u.until = time.Now().Add(upstreamHealthTTL)
	return u.err
}

// serveHealth reports whether calls are expected to work (OTC 1.0, Server Health Check). All
// documents must be loaded. If a health check is configured, the API must be healthy.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request, c *catalog, upstream UpstreamHealth) {
	if c.partial || !c.loaded() {
		s.writeFault(w, notLoaded(s.options.RetryAfter), otcStandard)
		return
	}
	if upstream != nil {
		if err := s.health.check(r.Context(), upstream); err != nil {
			f := unavailable("the API behind the tools is unhealthy", upstreamHealthTTL)
			f.developer = err.Error()
			s.writeFault(w, f, otcStandard)
			return
		}
	}
	writeJSON(w, http.StatusOK, []byte(`{"$schema":"`+otcStandard.schema+`","status":"healthy"}`))
}
