package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// subscribe subscribes to the changes of other nodes, unless a subscription is active. The
// subscription exists only while there are waiters, so that idle nodes do not receive
// every change.
func (s *Store) subscribe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribed || s.closed {
		return
	}
	s.subscribed = true
	s.ended.Add(1)
	go s.runSubscription()
}

func (s *Store) runSubscription() {
	defer s.ended.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	subscription := s.client.Subscribe(ctx, s.channel())
	defer subscription.Close()
	messages := subscription.ChannelWithSubscriptions()
	ticker := time.NewTicker(idleTimeout)
	defer ticker.Stop()
	for {
		select {
		case message, ok := <-messages:
			if !ok {
				s.subscriptionLost()
				return
			}
			if m, isMessage := message.(*redis.Message); isMessage {
				s.waiters.Wake(m.Payload)
			} else {
				s.waiters.WakeAll() // (re)subscribed: changes may have been missed
			}
		case <-ticker.C:
			if s.endIfIdle() {
				return
			}
		case <-s.closing:
			return
		}
	}
}

// endIfIdle reports whether the subscription must end because there are no waiters.
func (s *Store) endIfIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waiters.Empty() {
		return false
	}
	s.subscribed = false
	return true
}

// subscriptionLost allows the next waiter to start a new subscription.
func (s *Store) subscriptionLost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribed = false
}
