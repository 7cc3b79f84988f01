package storetest

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// Redis starts a Redis server on a free port of the loopback interface. It returns the
// address and a function that kills the server. The server is also killed at the end of
// the test. If redis-server is not installed, the test is skipped.
func Redis(t testing.TB, arguments ...string) (address string, kill func()) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		testkit.Missing(t, "redis-server is not installed")
	}
	for range 3 { // another process may take the port first
		port := testkit.FreePort(t)
		if kill, ok := startRedis(t, program, port, arguments); ok {
			t.Cleanup(kill)
			return fmt.Sprintf("redis://127.0.0.1:%d/0", port), kill
		}
	}
	t.Fatal("redis-server does not start")
	return "", nil
}

func startRedis(t testing.TB, program string, port int, arguments []string) (kill func(), ok bool) {
	t.Helper()
	command := exec.Command(program, append([]string{
		"--port", fmt.Sprint(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", t.TempDir(),
	}, arguments...)...)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	ready := make(chan bool, 1)
	go func() {
		defer close(ended)
		defer func() { _ = command.Wait() }()
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				select {
				case ready <- true:
				default:
				}
			}
		}
	}()
	kill = func() {
		_ = command.Process.Kill()
		<-ended
	}
	select {
	case <-ready:
		return kill, true
	case <-ended:
		return nil, false
	}
}
