package embedded_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/storetest"
)

// busy is the prefix of the path of a store to open with embedded.Busy.
const busy = "busy:"

func TestMain(m *testing.M) {
	testkit.CollectRarely() // the crash tests open thousands of stores with small heaps, and would mostly collect garbage
	storetest.Child(func(address string) (store.Store, error) {
		if path, is := strings.CutPrefix(address, busy); is {
			return embedded.Open(path, embedded.Busy(embedded.Options{}))
		}
		return embedded.Open(address, embedded.Options{})
	})
	os.Exit(m.Run())
}

func openStore(t testing.TB, path string, options embedded.Options) *embedded.Store {
	t.Helper()
	if options.Failed == nil {
		options.Failed = func(err error) { t.Errorf("failed: %v", err) }
	}
	s, err := embedded.Open(path, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		path := filepath.Join(t.TempDir(), "folder", "records.db")
		return storetest.Place{
			Address: path,
			Open:    func(t testing.TB) store.Store { return openStore(t, path, embedded.Options{}) },
		}
	})
}

// TestStore_busy runs the same suite while a memtable is flushed at all times, so that a kill
// interrupts a flush and both files of the write-ahead log have frames.
func TestStore_busy(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		path := filepath.Join(t.TempDir(), "records.db")
		return storetest.Place{
			Address: busy + path,
			Open:    func(t testing.TB) store.Store { return openStore(t, path, embedded.Busy(embedded.Options{})) },
		}
	})
}

func TestShares(t *testing.T) {
	storetest.RunShares(t, func(t *testing.T) storetest.Place {
		path := filepath.Join(t.TempDir(), "records.db")
		return storetest.Place{
			Open: func(t testing.TB) store.Store {
				return openStore(t, path, embedded.Options{MaxBytes: storetest.ShareLimit})
			},
		}
	})
}
