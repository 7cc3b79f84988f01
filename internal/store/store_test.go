package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/store"
	"github.com/fairwayhq/fairway/internal/store/storetest"
)

// busy is the prefix of the path of a store to open with store.Busy.
const busy = "busy:"

func TestMain(m *testing.M) {
	storetest.Child(func(address string) (store.Store, error) {
		if strings.Contains(address, "://") {
			return store.OpenRedis(address, store.RedisOptions{})
		}
		if path, is := strings.CutPrefix(address, busy); is {
			return store.OpenBolt(path, store.Busy(store.BoltOptions{}))
		}
		return store.OpenBolt(address, store.BoltOptions{})
	})
	os.Exit(m.Run())
}

func openBolt(t testing.TB, path string, options store.BoltOptions) *store.Bolt {
	t.Helper()
	if options.Failed == nil {
		options.Failed = func(err error) { t.Errorf("failed: %v", err) }
	}
	s, err := store.OpenBolt(path, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openRedis(t testing.TB, address string) *store.Redis {
	t.Helper()
	s, err := store.OpenRedis(address, store.RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBolt(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		path := filepath.Join(t.TempDir(), "folder", "records.db")
		return storetest.Place{
			Address: path,
			Open:    func(t testing.TB) store.Store { return openBolt(t, path, store.BoltOptions{}) },
		}
	})
}

// TestBolt_busy runs the same suite while a memtable is flushed at all times, so that a kill
// interrupts a flush and both files of the write-ahead log have frames.
func TestBolt_busy(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		path := filepath.Join(t.TempDir(), "records.db")
		return storetest.Place{
			Address: busy + path,
			Open:    func(t testing.TB) store.Store { return openBolt(t, path, store.Busy(store.BoltOptions{})) },
		}
	})
}

func TestRedis(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		address, _ := storetest.Redis(t)
		return storetest.Place{
			Address: address,
			Nodes:   true,
			Open:    func(t testing.TB) store.Store { return openRedis(t, address) },
		}
	})
}
