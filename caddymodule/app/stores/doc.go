// Package stores has the guest modules of the namespace agents.stores: where Fairway keeps data that must
// outlive a request and a restart.
//
//	agents.stores.bolt   a file of this node
//	agents.stores.redis  a Redis server that all nodes share: package redis
//
// Each module implements Module. The app `agents` loads one for the option store. It opens the store at its first use, and
// keeps it open over reloads.
package stores

import "github.com/fairwayhq/fairway/store"

// Namespace has the stores. In JSON, the member InlineKey has the name of the module.
const (
	Namespace = "agents.stores"
	InlineKey = "module"
)

// Module is a guest module of the namespace agents.stores. Provision checks its options. It must not open
// the store: a configuration that is only validated must not touch it.
type Module interface {
	// Key identifies the place of the records, such as the path of a file. Successive configurations whose
	// modules have the same name and key share one open store. The key is not logged. It is called after Provision.
	Key() string

	// Shared reports whether several nodes can use the place at the same time. Then nodes exchange recent calls
	// and the pages of large responses in the store.
	Shared() bool

	// Open opens the store. It is called when the store is first used, and again after an error. Errors must contain no
	// secrets. It may be called after Cleanup.
	Open(options store.Options) (store.Store, error)
}
