package store

import "testing"

// TestHub_sends_to_the_listeners_of_a_topic wants a listener to get what was sent while it listened, up to its buffer.
func TestHub_sends_to_the_listeners_of_a_topic(t *testing.T) {
	var h Hub[int]
	h.Send("a", 1)
	first, leave := h.Listen("a", 2)
	other, leaveOther := h.Listen("b", 1)
	defer leaveOther()
	h.Send("a", 2)
	h.SendAll(3)
	h.Send("a", 4) // more than the buffer
	if got := [...]int{<-first, <-first}; got != [...]int{2, 3} {
		t.Errorf("got %v, want 2 and 3", got)
	}
	if got := <-other; got != 3 {
		t.Errorf("the other topic got %d, want 3", got)
	}
	leave()
	h.Send("a", 5)
	select {
	case got := <-first:
		t.Errorf("got %d after the buffer was full or the listener had left", got)
	default:
	}
	if h.IsEmpty() {
		t.Error("a hub with a listener is empty")
	}
	leaveOther()
	if !h.IsEmpty() {
		t.Error("a hub without listeners is not empty")
	}
}
