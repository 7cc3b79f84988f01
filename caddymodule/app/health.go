package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/store"
)

// storeWait limits the time in which a store must respond to count as reachable.
const storeWait = 2 * time.Second

// reportInterval is how often awaitResponse tries again.
const reportInterval = 5 * time.Second

// storeResponds is the log message at the end of an outage.
const storeResponds = "the store responds now"

// healthKey is the key of a record that does not exist.
const healthKey = "health"

// What Ready returns if requests cannot be served. Probes without credentials get these texts.
const (
	reasonStarting  = "starting"
	reasonEnding    = "shutting down"
	reasonDocuments = "documents"
	reasonStore     = "store"
)

// Ready returns the reason and an error if requests cannot be served: the configuration has not started, a
// document is not loaded, or the store does not respond or cannot be written. A document that a site serves itself does not count:
// requests load it.
func (a *App) Ready(ctx context.Context) (reason string, err error) {
	select {
	case <-a.ready:
	default:
		return reasonStarting, errors.New("the configuration has not started")
	}
	for _, d := range a.OpenDocuments {
		if !d.FromSite && d.Loader.Toolset() == nil {
			return reasonDocuments, fmt.Errorf("the document of toolset %q is not loaded", d.Key.ShownName())
		}
	}
	if err := a.store.check(ctx); err != nil {
		return reasonStore, err
	}
	return "", nil
}

// check returns an error if the store does not respond or cannot be written. It does not open the default store, since
// that would create its file.
func (s *sharedStore) check(ctx context.Context) error {
	s.mu.Lock()
	unused := s.opened.Load() == nil && s.lastErr == nil && !s.named.Load()
	s.mu.Unlock()
	if unused {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	opened, err := s.open(ctx)
	if err == nil {
		_, err = opened.Get(ctx, healthKey)
	}
	if checked, ok := opened.(store.Checked); ok && errors.Is(err, store.ErrNotFound) {
		return checked.Health()
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// reportUnreachable opens the store, and logs once if it does not respond at the start of a configuration, and once
// when it does.
func (s *sharedStore) reportUnreachable(ended <-chan struct{}) {
	err := s.check(context.Background())
	if err == nil || errors.Is(err, store.ErrClosed) {
		return
	}
	s.logger.Load().Error("the store does not respond; until it does, requests that need it fail", zap.Error(err))
	if s.awaitResponse(ended) {
		s.logger.Load().Info(storeResponds)
	}
}

// awaitResponse blocks until the store responds. It returns false if it closes or the configuration ends before.
func (s *sharedStore) awaitResponse(ended <-chan struct{}) bool {
	for {
		select {
		case <-time.After(reportInterval):
		case <-ended:
			return false
		}
		if err := s.check(context.Background()); err == nil || errors.Is(err, store.ErrClosed) {
			return err == nil
		}
	}
}

// StoreErrors returns a function that logs errors of the store: the first one of an outage with the message, and
// the number of all when the store responds again, or when the configuration ends.
func (a *App) StoreErrors(logger *zap.Logger, message string) func(error) {
	var count atomic.Int64
	return func(err error) {
		if count.Add(1) > 1 {
			return
		}
		logger.Error(message, zap.Error(err))
		go func() {
			text := storeResponds
			if !a.store.awaitResponse(a.ended) {
				text = "the configuration has ended before the store responded"
			}
			logger.Info(text, zap.String("error", message), zap.Int64("errors", count.Swap(0)))
		}()
	}
}

// publicHealth is the health of an endpoint, for callers without credentials.
type publicHealth struct {
	site  Site
	path  string
	serve http.HandlerFunc
}

// AddPublicHealth makes agent_auth handlers of the site serve the health of an endpoint to callers
// without credentials.
func (a *App) AddPublicHealth(at Site, path string, serve http.HandlerFunc) {
	a.publicHealth = append(a.publicHealth, publicHealth{at, path, serve})
}

// PublicHealth returns what AddPublicHealth has added for a path of the site, or nil.
func (a *App) PublicHealth(at Site, path string) http.HandlerFunc {
	for _, h := range a.publicHealth {
		if h.path == path && h.site.SameSite(at) {
			return h.serve
		}
	}
	return nil
}
