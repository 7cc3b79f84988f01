package embedded_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child(func(address string) (store.Store, error) { return embedded.Open(address, embedded.Options{}) })
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
