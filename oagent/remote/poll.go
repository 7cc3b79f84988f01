package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/fairwayhq/fairway/internal/fetch"
)

const (
	pollWait    = 20 * time.Second       // Prefer: wait (RFC 7240, section 4.3)
	firstGap    = 500 * time.Millisecond // after a response that did not wait; then it doubles
	maxGap      = 10 * time.Second
	maxFailures = 5 // polls one after the other
)

// poll waits until the Engagement ends or waits for its user.
func (c *Client) poll(ctx context.Context, e *started) (*state, error) {
	failures := 0
	for gap := c.firstGap; ; {
		began := time.Now()
		s, after, err := e.get(ctx)
		switch {
		case err == nil && !s.isWaiting():
			return s, nil
		case err == nil:
			failures = 0
			if time.Since(began) >= pollWait/2 { // the server waits
				gap = c.firstGap
				continue
			}
		case ctx.Err() != nil || !isTransient(err):
			return nil, err
		default:
			if failures++; failures == maxFailures {
				return nil, err
			}
		}
		timer := time.NewTimer(max(gap, after))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, stopped(ctx)
		}
		gap = min(2*gap, maxGap)
	}
}

// isTransient reports whether another poll may succeed.
func isTransient(err error) bool {
	if _, ok := errors.AsType[*invalidError](err); ok {
		return false
	}
	if failed, ok := errors.AsType[*statusError](err); ok {
		return failed.isTransient()
	}
	return !errors.Is(err, ErrPrivateAddress)
}

// get requests the state. after is the delay before the next request, as the server requests it.
func (e *started) get(ctx context.Context) (s *state, after time.Duration, err error) {
	r, err := e.request(ctx, http.MethodGet, e.location, nil)
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Prefer", "wait="+strconv.Itoa(int(pollWait.Seconds())))
	response, err := e.host.fetcher.Get(ctx, r.URL.String(), r.Header)
	switch {
	case errors.Is(err, fetch.ErrTooLarge) || err == nil && len(response.Body) > MaxResult:
		return nil, 0, &invalidError{fmt.Errorf("the state of the Engagement is larger than %d bytes", MaxResult)}
	case err != nil:
		return nil, 0, brief(err)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		after = min(time.Duration(min(seconds, int(maxGap.Seconds())))*time.Second, maxGap)
	}
	if response.Status != http.StatusOK {
		return nil, after, &statusError{response.Status}
	}
	s, err = readState(response.Body)
	return s, after, err
}
