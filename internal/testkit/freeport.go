// A port chosen by the system is free only until the system assigns it to an outgoing connection of any
// process. The ports of this file are outside that range. So a test can start its server later and the
// port is still free.

package testkit

import (
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// The ports are below the range for outgoing connections: 32768 and above on Linux, 49152
// and above on other systems.
const (
	lowest    = 20_000
	stretches = 50
	stretch   = 240 // number of ports
)

// held listens on the first port of a stretch to reserve the stretch for this process,
// until the process ends. The tests of several packages run at the same time and must not
// use the same ports, which two Caddy processes would share. held is nil if no stretch is
// left.
var held = sync.OnceValue(func() net.Listener {
	for i := range stretches {
		if listener, err := listen(lowest + (os.Getpid()+i)%stretches*stretch); err == nil {
			return listener
		}
	}
	return nil
})

// given counts the ports that this process has handed out.
var given atomic.Int64

// FreePort returns a port of the loopback address on which nothing listens. No other process
// gets the same port. Each call returns another port until the stretch is used up.
func FreePort(t testing.TB) int {
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
