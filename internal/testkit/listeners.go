package testkit

import (
	"fmt"
	"os"
	"strings"
)

// Listeners returns the number of sockets that listen on the port, or 0 if the system does
// not provide it.
//
// After a configuration reload, Caddy does not wait until the old server has closed its
// socket. While two sockets listen on a port, either can accept the next connection. So a
// test that reloads the configuration waits until there is one socket.
func Listeners(port int) (n int) {
	if n, err := queryListeners(port); err == nil {
		return n
	}
	return readListeners(port)
}

// readListeners is Listeners by the tables of all connections. Linux goes through a hash table for all that the
// machine could have, which takes milliseconds of CPU.
func readListeners(port int) (n int) {
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
