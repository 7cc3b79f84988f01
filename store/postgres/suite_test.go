package postgres_test

import (
	"os"
	"testing"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/postgres"
	"github.com/fairwayhq/fairway/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child(func(address string) (store.Store, error) {
		return postgres.Open(address, postgres.Options{})
	})
	os.Exit(m.Run())
}

// openStore opens a store and closes it at the end of the test.
func openStore(t testing.TB, address string) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		address := storetest.Postgres(t)
		return storetest.Place{
			Address: address,
			Nodes:   true,
			Open: func(t testing.TB) store.Store {
				s, err := postgres.Open(address, postgres.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return s
			},
		}
	})
}

func TestShares(t *testing.T) {
	storetest.RunShares(t, func(t *testing.T) storetest.Place {
		address := storetest.Postgres(t)
		return storetest.Place{Open: func(t testing.TB) store.Store {
			s, err := postgres.Open(address, postgres.Options{MaxBytes: storetest.ShareLimit})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}}
	})
}
