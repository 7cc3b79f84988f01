package testkit

import (
	"os"
	"runtime/debug"
)

// CollectRarely makes the garbage collector run less often, unless GOGC is set. TestMain of a package with tests that
// allocate much calls it: collecting garbage takes a third of their CPU. Tests that measure the live heap after a
// collection, or what was allocated, are not affected. A process whose peak memory is measured must not call it.
func CollectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
