package verify

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairwayhq/fairway/internal/oauth"
)

const (
	// firstRetry is the delay after the first failed fetch. It doubles with each further
	// failure, up to lastRetry.
	firstRetry, lastRetry = time.Second, time.Minute

	// fileRefresh is how often a key file is read again.
	fileRefresh = time.Minute

	// minKeep and maxKeep limit how long a server's Cache-Control can delay the next fetch.
	minKeep, maxKeep = 5 * time.Minute, 24 * time.Hour
)

// keyring has the keys of one issuer. A single goroutine makes all fetches, so there is never
// more than one at a time. Callers that need a fetch wait for it.
type keyring struct {
	issuer  Issuer
	options *Options
	load    func(context.Context) (*keySet, time.Duration, error)

	current atomic.Pointer[keySet] // nil while unknown
	once    sync.Once
	wanted  chan struct{}   // requests a fetch; has a capacity of one
	ended   <-chan struct{} // closedChannel when no more fetches are made

	mu      sync.Mutex
	ongoing chan struct{} // closedChannel when the current fetch ends; nil if there is none
	next    time.Time     // when the next fetch is due
	last    time.Time     // when the last fetch ended
	good    time.Time     // when the last successful fetch ended

	reported [sha256.Size]byte // digest of the key set whose skipped keys were reported; of the goroutine
}

// begin starts the goroutine of the keyring with the first fetch. Later calls do nothing.
func (k *keyring) begin(ctx context.Context, tasks *sync.WaitGroup) {
	k.once.Do(func() {
		k.pendingFetch()
		tasks.Go(func() { k.run(ctx) })
	})
}

// pendingFetch returns the channel that is closed when the current or next fetch ends.
func (k *keyring) pendingFetch() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ongoing == nil {
		k.ongoing = make(chan struct{})
	}
	return k.ongoing
}

// run fetches the keys when they are due or requested, until ctx ends.
func (k *keyring) run(ctx context.Context) {
	retry := firstRetry
	for {
		k.pendingFetch()
		keys, keep, err := k.load(ctx)
		if ctx.Err() != nil {
			k.recordResult(nil, 0)
			return
		}
		wait := retry
		if err == nil {
			wait, retry = k.freshness(keep), firstRetry
		} else {
			retry = min(2*retry, lastRetry)
		}
		k.recordResult(keys, wait)
		k.observe(keys, err)

		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-k.wanted:
		}
	}
}

// freshness returns the time until the next fetch. MaxAge is what the server
// allows.
func (k *keyring) freshness(maxAge time.Duration) time.Duration {
	switch {
	case k.issuer.isFile():
		return fileRefresh
	case maxAge > 0:
		return min(max(maxAge, minKeep), maxKeep, k.options.MaxStale)
	}
	return k.options.Refresh
}

// recordResult records the result of a fetch. If it failed, the current keys stay, but not for longer
// than MaxStale. If the new keys are equal to the current ones, the current key set stays too,
// so that cached tokens remain valid.
func (k *keyring) recordResult(keys *keySet, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.last, k.next = now, now.Add(wait)
	switch current := k.current.Load(); {
	case keys != nil:
		k.good = now
		if current == nil || current.digest != keys.digest {
			k.current.Store(keys)
		}
	case current != nil && now.Sub(k.good) > k.options.MaxStale:
		k.current.Store(nil)
	}
	if k.ongoing != nil {
		close(k.ongoing)
		k.ongoing = nil
	}
}

// observe reports the result of a fetch to the observer.
func (k *keyring) observe(keys *keySet, err error) {
	switch {
	case err != nil && k.options.Observer.Failed != nil:
		k.options.Observer.Failed(k.issuer.URL, err, k.current.Load() != nil)
	case err == nil && k.options.Observer.Fetched != nil:
		var skipped []string
		if k.reported != keys.digest { // once, not at each refresh
			k.reported, skipped = keys.digest, keys.skipped
		}
		k.options.Observer.Fetched(k.issuer.URL, len(keys.keys), skipped)
	}
}

// find returns the key set with the key that signed a token. Signed reports whether one of the keys did. If none did, the keyring fetches the keys again,
// unless it has done so just before: an issuer may have a new key with an old kid, or without one. The limit prevents that invented tokens cause many
// requests to the issuer.
func (k *keyring) find(ctx context.Context, header *joseHeader, signed func([]*key) bool) (*keySet, error) {
	set := k.current.Load()
	found := set.find(header)
	if signed(found) {
		return set, nil
	}
	if done := k.refetch(set); done != nil {
		if err := k.await(ctx, done); err != nil {
			return nil, err
		}
		set = k.current.Load()
		if found = set.find(header); signed(found) {
			return set, nil
		}
	}
	switch {
	case set == nil:
		return nil, k.unavailable()
	case len(found) == 0:
		return nil, oauth.NewInvalidToken("the token is signed with a key (kid %s, alg %s) that its issuer does not publish",
			oauth.QuoteShort(header.KeyID), oauth.QuoteShort(header.Algorithm))
	}
	return nil, oauth.NewInvalidToken("the token's signature is not valid")
}

// refetch returns the channel to wait for before the keys are looked up again. It returns nil
// if no new keys can be expected.
func (k *keyring) refetch(seen *keySet) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ongoing != nil:
		return k.ongoing
	case k.current.Load() != seen:
		return closedChannel
	case seen == nil: // the goroutine retries by itself
		return nil
	case time.Since(k.last) < k.options.MinRefetch:
		return nil
	}
	k.ongoing = make(chan struct{})
	select {
	case k.wanted <- struct{}{}:
	default:
	}
	return k.ongoing
}

// closedChannel is a channel on which waiting ends immediately.
var closedChannel = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// await waits for a fetch, at most MaxWait.
func (k *keyring) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	case <-k.ended:
	case <-time.After(k.options.MaxWait):
	}
	return k.unavailable()
}

// unavailable returns an Error with Unavailable.
func (k *keyring) unavailable() error {
	k.mu.Lock()
	wait := time.Until(k.next)
	k.mu.Unlock()
	return &oauth.Error{
		Code:        oauth.Unavailable,
		Description: "the keys of the token's issuer are not available at the moment, so the token cannot be verified; try again",
		RetryAfter:  max(wait, time.Second),
	}
}
