package storetest

import (
	"testing"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/postgres"
	"github.com/fairwayhq/fairway/store/redis"
)

// SharedServer is the server of a store that several nodes can share. It has no records at first.
type SharedServer struct {
	// Option has the arguments of the option store in a Caddyfile.
	Option string
	open   func(indexed []string) (store.Store, error)
}

// Shared returns the stores that nodes can share, by name. Each function returns a server without records. Its records
// are removed at the end of the test.
func Shared() map[string]func(testing.TB) *SharedServer {
	return map[string]func(testing.TB) *SharedServer{
		"redis": func(t testing.TB) *SharedServer {
			t.Helper()
			address, _ := Redis(t)
			return &SharedServer{"redis " + address, func(indexed []string) (store.Store, error) {
				return redis.Open(address, redis.Options{Indexed: indexed})
			}}
		},
		"postgres": func(t testing.TB) *SharedServer {
			t.Helper()
			address := Postgres(t)
			return &SharedServer{"postgres " + address, func([]string) (store.Store, error) { // it has an index for all keys
				return postgres.Open(address, postgres.Options{})
			}}
		},
	}
}

// Open opens the store for one more node, and closes it at the end of the test. indexed are the prefixes of keys that the
// test lists, if there are many other keys.
func (s *SharedServer) Open(t testing.TB, indexed ...string) store.Store {
	t.Helper()
	opened, err := s.open(indexed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

// OnShared runs a test with each store that nodes can share, as a subtest with the name of the store.
func OnShared(t *testing.T, run func(t *testing.T, server *SharedServer)) {
	for name, start := range Shared() {
		t.Run(name, func(t *testing.T) { run(t, start(t)) })
	}
}
