package oauth

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// firstRetry is when a fetch that failed is tried again; the wait doubles up
	// to lastRetry.
	firstRetry, lastRetry = time.Second, time.Minute

	// fileRefresh is how often a key file is read again.
	fileRefresh = time.Minute

	// minKeep and maxKeep bound for how long a server's Cache-Control makes keys
	// be kept without a look at whether there are others.
	minKeep, maxKeep = 5 * time.Minute, 24 * time.Hour
)

// keyring has the keys of one issuer. All fetches are made by one goroutine, so
// there is never more than one at a time; whoever needs one waits for it.
type keyring struct {
	issuer  Issuer
	options *Options
	load    func(context.Context) (*keySet, time.Duration, error)

	current atomic.Pointer[keySet] // nil while unknown
	once    sync.Once
	wanted  chan struct{}   // has room for one
	ended   <-chan struct{} // closed when there will be no more fetches

	mu      sync.Mutex
	ongoing chan struct{} // closed when the fetch under way ends; nil if there is none
	next    time.Time     // when the next fetch is due
	last    time.Time     // when the last fetch ended
	good    time.Time     // when the last good fetch ended
}

// begin starts the goroutine of the keyring, with the first fetch, once.
func (k *keyring) begin(ctx context.Context, tasks *sync.WaitGroup) {
	k.once.Do(func() {
		k.expect()
		tasks.Go(func() { k.run(ctx) })
	})
}

// expect returns the channel that the end of the fetch closes that is under way,
// or about to be.
func (k *keyring) expect() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ongoing == nil {
		k.ongoing = make(chan struct{})
	}
	return k.ongoing
}

// run fetches the keys, whenever they are due or wanted, until ctx ends.
func (k *keyring) run(ctx context.Context) {
	retry := firstRetry
	for {
		k.expect()
		keys, keep, err := k.load(ctx)
		if ctx.Err() != nil {
			k.settle(nil, 0)
			return
		}
		wait := retry
		if err == nil {
			wait, retry = k.freshness(keep), firstRetry
		} else {
			retry = min(2*retry, lastRetry)
		}
		k.settle(keys, wait)
		k.tell(keys, err)

		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-k.wanted:
			timer.Stop()
		}
	}
}

// freshness returns how long keys are kept before they are fetched again.
func (k *keyring) freshness(said time.Duration) time.Duration {
	switch {
	case k.issuer.isFile():
		return fileRefresh
	case said > 0:
		return min(max(said, minKeep), maxKeep, k.options.MaxStale)
	}
	return k.options.Refresh
}

// settle ends a fetch. The keys that were stay if there are no new ones, but not
// for longer than MaxStale, and if the new ones are the same.
func (k *keyring) settle(keys *keySet, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	k.last, k.next = now, now.Add(wait)
	switch held := k.current.Load(); {
	case keys != nil:
		k.good = now
		if held == nil || held.digest != keys.digest {
			k.current.Store(keys)
		}
	case held != nil && now.Sub(k.good) > k.options.MaxStale:
		k.current.Store(nil)
	}
	if k.ongoing != nil {
		close(k.ongoing)
		k.ongoing = nil
	}
}

func (k *keyring) tell(keys *keySet, err error) {
	switch {
	case err != nil && k.options.Observer.Failed != nil:
		k.options.Observer.Failed(k.issuer.URL, err, k.current.Load() != nil)
	case err == nil && k.options.Observer.Fetched != nil:
		k.options.Observer.Fetched(k.issuer.URL, len(keys.keys))
	}
}

// find returns the keys that a token can be signed with and the set they are of.
// A kid that is not known makes the keyring look for new keys, unless it did so
// only just now: tokens that anybody can invent must not become a storm upon
// the issuer.
func (k *keyring) find(ctx context.Context, header *joseHeader) ([]*key, *keySet, error) {
	set := k.current.Load()
	if set != nil {
		if found := set.find(header); len(found) > 0 {
			return found, set, nil
		}
	}
	if done := k.refetch(set); done != nil {
		if err := k.await(ctx, done); err != nil {
			return nil, nil, err
		}
		set = k.current.Load()
	}
	if set == nil {
		return nil, nil, k.unavailable()
	}
	found := set.find(header)
	if len(found) == 0 {
		return nil, nil, invalidToken("the token is signed with a key (kid %s, alg %s) that its issuer does not publish",
			shown(header.KeyID), shown(header.Algorithm))
	}
	return found, set, nil
}

// refetch returns what to wait for before the keys are looked at again, nil if
// there is nothing to hope for.
func (k *keyring) refetch(had *keySet) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.ongoing != nil:
		return k.ongoing
	case k.current.Load() != had:
		return closed
	case had == nil: // the goroutine tries again by itself
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

// closed is what to wait for where there is no need to.
var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// await waits for a fetch, for no longer than a caller should be kept.
func (k *keyring) await(ctx context.Context, done <-chan struct{}) error {
	timer := time.NewTimer(k.options.MaxWait)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	case <-k.ended:
	case <-timer.C:
	}
	return k.unavailable()
}

func (k *keyring) unavailable() error {
	k.mu.Lock()
	wait := time.Until(k.next)
	k.mu.Unlock()
	return &Error{
		Code:        Unavailable,
		Description: "the keys of the token's issuer cannot be fetched at the moment, so the token cannot be verified: try again",
		RetryAfter:  max(wait, time.Second),
	}
}
