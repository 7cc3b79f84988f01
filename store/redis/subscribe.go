package redis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/store"
)

// idleTimeout is the time without waiters after which the subscription ends.
const idleTimeout = 30 * time.Second

// changeFeed wakes Wait calls when a record changes. The Store reports changes by this process. Changes
// by other nodes arrive through a subscription to a channel of Redis.
type changeFeed struct {
	connection *connection
	channel    string // to which changed keys are published
	waiters    store.Waiters
	ended      sync.WaitGroup // the subscription

	mu         sync.Mutex
	subscribed bool
	closed     bool
}

// subscribe subscribes to the changes of other nodes, unless a subscription is active. The
// subscription exists only while there are waiters, so that idle nodes do not receive
// every change.
func (f *changeFeed) subscribe() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subscribed || f.closed {
		return
	}
	f.subscribed = true
	f.ended.Add(1)
	go f.run()
}

// close waits until the subscription has ended, which the end of the connection causes.
func (f *changeFeed) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.ended.Wait()
}

func (f *changeFeed) run() {
	defer f.ended.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	subscription := f.connection.client.Subscribe(ctx, f.channel)
	defer subscription.Close()
	messages := subscription.ChannelWithSubscriptions()
	ticker := time.NewTicker(idleTimeout)
	defer ticker.Stop()
	for {
		select {
		case message, ok := <-messages:
			if !ok {
				f.lost()
				return
			}
			if m, isMessage := message.(*redis.Message); isMessage {
				f.waiters.Wake(m.Payload)
			} else {
				f.waiters.WakeAll() // (re)subscribed: changes may have been missed
			}
		case <-ticker.C:
			if f.endIfIdle() {
				return
			}
		case <-f.connection.closing:
			return
		}
	}
}

// endIfIdle reports whether the subscription must end because there are no waiters.
func (f *changeFeed) endIfIdle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.waiters.IsEmpty() {
		return false
	}
	f.subscribed = false
	return true
}

// lost marks the subscription as ended, so that the next waiter starts a new one.
func (f *changeFeed) lost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribed = false
}
