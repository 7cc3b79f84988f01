package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// listen sees to it that waiters are told of what other nodes change. While nobody
// waits there is no subscription, so that nodes are not told of everything for
// nothing.
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
				s.waiters.wakeAll() // subscribed, perhaps again: look what was missed
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

// stopIdle reports whether the listener ends as nobody waits.
func (s *Redis) stopIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waiters.none() {
		return false
	}
	s.listening = false
	return true
}

// stopped lets the next waiter listen anew.
func (s *Redis) stopped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listening = false
}
