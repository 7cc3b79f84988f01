package postgres_test

import (
	"syscall"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store/storetest"
)

// TestFeed_replaces_a_connection_that_does_not_respond stops the process of the server that sends notifications, without
// closing its connection.
func TestFeed_replaces_a_connection_that_does_not_respond(t *testing.T) {
	address := storetest.Postgres(t)
	openStore(t, address)
	listener := func(other int) (pid int) {
		testkit.Eventually(t, "a connection that listens", func() bool {
			pid = query[int](t, address, "SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND pid <> $1", other)
			return pid != 0
		})
		return pid
	}
	first := listener(0)
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(first, syscall.SIGCONT) }()
	listener(first)
}
