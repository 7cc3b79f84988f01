// Package broadcast sends messages to those who listen to a topic. A sender never blocks.
package broadcast

import "sync"

// Hub has the listeners, by topic. The zero value is ready to use. It is safe for concurrent use.
type Hub[T any] struct {
	mu     sync.Mutex
	topics map[string]map[chan T]struct{}
}

// Listen returns a channel with the messages of a topic, until leave is called. A listener that lags behind by more than
// the size of the buffer misses messages. With a buffer of one and messages that are all equal, it misses nothing: it learns
// that there was a message since it has last received one.
func (h *Hub[T]) Listen(topic string, buffer int) (messages <-chan T, leave func()) {
	c := make(chan T, buffer)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics == nil {
		h.topics = make(map[string]map[chan T]struct{})
	}
	if h.topics[topic] == nil {
		h.topics[topic] = make(map[chan T]struct{})
	}
	h.topics[topic][c] = struct{}{}
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.topics[topic], c); len(h.topics[topic]) == 0 {
			delete(h.topics, topic)
		}
	}
}

// Send sends a message to the listeners of a topic.
func (h *Hub[T]) Send(topic string, message T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	send(h.topics[topic], message)
}

// SendAll sends a message to the listeners of all topics.
func (h *Hub[T]) SendAll(message T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, listeners := range h.topics {
		send(listeners, message)
	}
}

func send[T any](listeners map[chan T]struct{}, message T) {
	for c := range listeners {
		select {
		case c <- message:
		default:
		}
	}
}

// IsEmpty reports whether there are no listeners.
func (h *Hub[T]) IsEmpty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics) == 0
}
