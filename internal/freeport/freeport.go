// Package freeport finds ports for the servers that tests start. A port that the
// system chooses is free until the next outgoing connection is given it, in this
// process or another; those that are found here are never given to one, so that a
// test which starts its server later finds the port as free as it was.
package freeport

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// The ports lie below those that systems give to outgoing connections (32768 and
// above on Linux, 49152 and above elsewhere).
const (
	lowest    = 20_000
	stretches = 50
	stretch   = 240 // ports
)

// held listens, as long as this process runs, on the first port of the stretch that
// is the process's own: the tests of several packages run at the same time, and must
// not be given the same ports, which two Caddys would share. It is nil if there is
// none left.
var held = sync.OnceValue(func() net.Listener {
	for i := range stretches {
		if listener, err := listen(lowest + (os.Getpid()+i)%stretches*stretch); err == nil {
			return listener
		}
	}
	return nil
})

// given counts the ports that this process was given.
var given atomic.Int64

// Find returns a port of the loopback address on which nothing listens, and which
// no other process is given. It is another one each time, as long as there are.
func Find(t testing.TB) int {
	t.Helper()
	own := held()
	if own == nil {
		t.Fatal("other processes have all ports")
	}
	for range stretch {
		port := own.Addr().(*net.TCPAddr).Port + 1 + int(given.Add(1))%(stretch-1)
		if listener, err := listen(port); err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatalf("none of %d ports is free", stretch-1)
	return 0
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

// Listeners returns how many sockets listen on the port. Caddy does not wait until a
// server that it has replaced has closed its socket, and of two sockets on a port
// either may be given the next connection: a test that has loaded another
// configuration waits until there is one. Where the system does not tell it is 0.
func Listeners(port int) (n int) {
	const listening = "0A"
	suffix := fmt.Sprintf(":%04X", port)
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line) // number, local address, remote address, state, …
			if len(fields) > 3 && fields[3] == listening && strings.HasSuffix(fields[1], suffix) {
				n++
			}
		}
	}
	return n
}
