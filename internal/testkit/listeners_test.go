package testkit

import (
	"fmt"
	"net"
	"testing"
)

// TestListeners counts the sockets that listen on a port, of both families, and no connections.
func TestListeners(t *testing.T) {
	port := FreePort(t)
	ways := map[string]func(int) int{"Listeners": Listeners, "readListeners": readListeners}
	if _, err := queryListeners(port); err == nil {
		ways["queryListeners"] = func(port int) int {
			n, err := queryListeners(port)
			if err != nil {
				t.Error(err)
			}
			return n
		}
	}
	want := func(n int) {
		t.Helper()
		for name, count := range ways {
			if got := count(port); got != n {
				t.Errorf("%s: %d, want %d", name, got, n)
			}
		}
	}
	want(0)
	n := 0
	for _, address := range []string{"127.0.0.1", "::1"} {
		listener, err := net.Listen("tcp", net.JoinHostPort(address, fmt.Sprint(port)))
		if err != nil {
			t.Logf("no listener on %s: %v", address, err)
			continue
		}
		defer listener.Close()
		n++
		want(n)
	}
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	want(n)
}
