// Package freeport finds ports for the servers that tests start. A port that the
// system chooses is free until the next outgoing connection is given it, in this
// process or another; those that are found here are never given to one, so that a
// test which starts its server later finds the port as free as it was.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// The ports lie below those that systems give to outgoing connections (32768 and
// above on Linux, 49152 and above elsewhere).
const (
	lowest = 20_000
	count  = 12_000
	tries  = 100
)

// Find returns a port of the loopback address on which nothing listens.
func Find(t testing.TB) int {
	t.Helper()
	for range tries {
		port := lowest + rand.IntN(count) //nolint:gosec // no secret
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatalf("none of %d ports is free", tries)
	return 0
}
