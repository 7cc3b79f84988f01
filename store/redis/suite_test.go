package redis_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child(func(address string) (store.Store, error) { return openPlace(address) })
	os.Exit(m.Run())
}

func openStore(t testing.TB, address string) *redis.Store {
	t.Helper()
	return openWith(t, address, redis.Options{})
}

func openWith(t testing.TB, address string, options redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.Open(address, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestStore_indexed runs the suite with an index for the keys that it lists.
func TestStore_indexed(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		address, _ := storetest.Redis(t)
		return storetest.Place{
			Address: address,
			Nodes:   true,
			Open: func(t testing.TB) store.Store {
				return openWith(t, address, redis.Options{Indexed: []string{"b/", "k"}})
			},
		}
	})
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		address, _ := storetest.Redis(t)
		return storetest.Place{
			Address: address,
			Nodes:   true,
			Open:    func(t testing.TB) store.Store { return openStore(t, address) },
		}
	})
}

func TestShares(t *testing.T) {
	storetest.RunShares(t, func(t *testing.T) storetest.Place {
		const empty = 1 << 20 // bytes of a server without records
		address, _ := storetest.Redis(t, "--maxmemory", fmt.Sprint(storetest.ShareLimit+empty), "--maxmemory-policy", "noeviction")
		return storetest.Place{Open: func(t testing.TB) store.Store { return openStore(t, address) }}
	})
}
