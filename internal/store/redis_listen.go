package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// listen subscribes to the changes of other nodes, unless a subscription is active. The
// subscription exists only while there are waiters, so that idle nodes do not receive
// every change.
func (s *Redis) listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listening || s.shut {
		return
	}
	s.listening = true
	s.ended.Add(1)
	go s.listenWhileNeeded()
}

func (s *Redis) listenWhileNeeded() {
	defer s.ended.Done()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	subscription := s.client.Subscribe(ctx, s.channel())
	defer subscription.Close()
	told := subscription.ChannelWithSubscriptions()
	ticker := time.NewTicker(redisIdle)
	defer ticker.Stop()
	for {
		select {
		case message, ok := <-told:
			if !ok {
				s.stopped()
				return
			}
			if m, isMessage := message.(*redis.Message); isMessage {
				s.waiters.wake(m.Payload)
			} else {
				s.waiters.wakeAll() // (re)subscribed: changes may have been missed
			}
		case <-ticker.C:
			if s.stopIdle() {
				return
			}
		case <-s.closing:
			return
		}
	}
}

// stopIdle reports whether the listener must end because there are no waiters.
func (s *Redis) stopIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waiters.none() {
		return false
	}
	s.listening = false
	return true
}

// stopped allows the next waiter to start a new listener.
func (s *Redis) stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listening = false
}
