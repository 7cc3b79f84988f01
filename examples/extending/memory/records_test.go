package memory

import (
	"testing"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/storetest"
)

// TestStore runs the suite that every store must pass. The records of a place outlive Close, like those on a
// disk do, so that the suite can open the place again.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		kept := newRecords(store.Options{}, 1000)
		return storetest.Place{Open: func(testing.TB) store.Store {
			s := newRecords(store.Options{}, 1000)
			s.byKey = kept.byKey
			return s
		}}
	})
}
