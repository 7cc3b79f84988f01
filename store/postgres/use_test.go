package postgres

import (
	"testing"
	"time"
)

// TestUse_is_not_read_all_the_time checks that a read that took long is not due again soon. A read would fail: there is no
// server.
func TestUse_is_not_read_all_the_time(t *testing.T) {
	u := newUse(&connection{}, &Options{})
	u.read, u.took = time.Now().Add(-2*useInterval), useInterval
	if err := u.refresh(t.Context()); err != nil {
		t.Error(err)
	}
}
