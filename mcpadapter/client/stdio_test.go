//go:build unix

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
)

// serveProcess returns a Server for this program, which runs as an MCP server (runProcess).
func serveProcess(t *testing.T, mode string, o Options) *Server {
	t.Helper()
	o.Name, o.Command = "test", &Command{Path: os.Args[0], Env: []string{"TEST_SERVER=run " + mode}}
	s := New(o, zap.NewNop())
	t.Cleanup(s.Close)
	return s
}

// process is what the server says of itself.
type process struct {
	PID       int             `json:"pid"`
	Child     int             `json:"child"`
	Env       []string        `json:"env"`
	Arguments json.RawMessage `json:"arguments"`
	Tool      string          `json:"tool"`
}

func (p process) runs() bool { return syscall.Kill(p.PID, 0) == nil }

func callProcess(t *testing.T, s *Server, owner share.Owner, tool, arguments string) (p process, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	result, err := s.Call(ctx, &Call{Owner: owner, Tool: tool, Arguments: jsontext.Value(arguments)})
	if err != nil {
		return p, err
	}
	for walk := strictjson.Into(strictjson.MemberOf(result, "content")); walk.Next(); {
		if err := json.Unmarshal([]byte(strictjson.Text(strictjson.MemberOf(walk.Value, "text"))), &p); err != nil {
			t.Fatal(err)
		}
	}
	return p, nil
}

func mustCall(t *testing.T, s *Server, owner share.Owner) process {
	t.Helper()
	p, err := callProcess(t, s, owner, "t", "{}")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestProcess_environment gives a process no variables but its own.
func TestProcess_environment(t *testing.T) {
	t.Setenv("SECRET", "s")
	if p := mustCall(t, serveProcess(t, "", Options{}), "u:a"); len(p.Env) != 1 || p.Env[0] != "TEST_SERVER=run " {
		t.Errorf("the process has %q", p.Env)
	}
}

// TestProcess_gets_one_line_a_message: white space of a client must not begin another message.
func TestProcess_gets_one_line_a_message(t *testing.T) {
	s := serveProcess(t, "", Options{})
	forged := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exit","arguments":{}}}`
	for _, space := range []string{"\n", "\r\n", "\r"} {
		p, err := callProcess(t, s, "u:a", "t", `{"a":`+space+forged+space+`}`)
		if err != nil || p.Tool != "t" || !strings.Contains(string(p.Arguments), `"exit"`) {
			t.Errorf("%q: the process got %s, %v", space, p.Arguments, err)
		}
	}
}

// TestProcess_error_names_the_folder that does not exist, not the program.
func TestProcess_error_names_the_folder(t *testing.T) {
	folder := t.TempDir() + "/none"
	s := New(Options{Name: "test", Command: &Command{Path: os.Args[0], Dir: folder}}, zap.NewNop())
	t.Cleanup(s.Close)
	if _, err := callTool(t, s, "u:a"); err == nil || !strings.Contains(err.Error(), folder) {
		t.Errorf("got %v", err)
	}
}

// TestProcess_starts_again after it has ended.
func TestProcess_starts_again(t *testing.T) {
	s := serveProcess(t, "", Options{})
	first := mustCall(t, s, "u:a")
	if _, err := callProcess(t, s, "u:a", "exit", "{}"); !errors.As(err, new(*UnavailableError)) || errors.Is(err, errUnsent) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
	second := mustCall(t, s, "u:a")
	_ = syscall.Kill(second.PID, syscall.SIGKILL)
	testkit.Eventually(t, "the process has ended", func() bool { return !second.runs() })
	third := mustCall(t, s, "u:a")
	if first.PID == second.PID || second.PID == third.PID {
		t.Errorf("processes %d %d %d", first.PID, second.PID, third.PID)
	}
}

// TestProcess_ends_with_its_children when the server is closed or its first process is killed.
//
//nolint:tparallel // the subtests mostly wait
func TestProcess_ends_with_its_children(t *testing.T) {
	for _, mode := range []string{"child", "child stubborn", "child leaves"} {
		for _, killed := range []bool{false, true} {
			name := mode
			if killed {
				name += " killed"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := serveProcess(t, mode, Options{})
				p := mustCall(t, s, "u:a")
				child := process{PID: p.Child}
				if !p.runs() || p.Child == 0 || !child.runs() {
					t.Fatalf("%+v does not run", p)
				}
				if killed {
					_ = syscall.Kill(p.PID, syscall.SIGKILL)
					_, _ = callProcess(t, s, "u:a", "t", "{}") // the process may have got it
					if again := mustCall(t, s, "u:a"); again.PID == p.PID {
						t.Error("the process was not started again")
					}
				}
				s.Close()
				if strings.Contains(mode, "leaves") {
					_ = syscall.Kill(p.Child, syscall.SIGKILL)
				}
				testkit.Eventually(t, "both have ended", func() bool { return !p.runs() && !isRunning(p.Child) })
			})
		}
	}
}

// isRunning reports whether a process that is no child of the test runs. Without a parent that waits for it, it stays
// in the table when it has ended.
func isRunning(pid int) bool {
	if runtime.GOOS != "linux" {
		return syscall.Kill(pid, 0) == nil
	}
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(data), ") Z ")
}

// TestProcess_standard_error is logged in part.
func TestProcess_standard_error(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := serveProcess(t, "noisy", Options{})
	s.Use(zap.New(core), nil)
	mustCall(t, s, "u:a")
	s.Close()
	for _, e := range logs.All() {
		for _, f := range e.Context {
			if line, ok := f.Interface.([]byte); ok && len(line) > maxLoggedLine {
				t.Fatalf("a line of %d bytes is logged", len(line))
			}
		}
	}
	if n := logs.FilterMessageSnippet("standard error").Len(); n > 2*(maxLoggedPerRun+1) || n < maxLoggedPerRun { // two processes: the first is asked for its era
		t.Errorf("%d lines are logged", n)
	}
}

// TestProcess_requests_of_no_call get a response of the gateway, also while it waits for a response itself.
func TestProcess_requests_of_no_call(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := serveProcess(t, "asks", Options{})
	s.Use(zap.New(core), nil)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	if _, err := s.Discover(ctx, nil); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the process gets a list without roots", func() bool {
		return slices.ContainsFunc(logs.All(), func(e observer.LoggedEntry) bool {
			return strings.Contains(fmt.Sprint(e.ContextMap()["line"]), `"id":"r","result":{"roots":[]}`)
		})
	})
}

// TestProcess_large_message ends the process, whose stream cannot be read on, and the next call works.
func TestProcess_large_message(t *testing.T) {
	s := serveProcess(t, "", Options{})
	if _, err := callProcess(t, s, "u:a", "large", "{}"); err == nil {
		t.Error("the message was accepted")
	}
	mustCall(t, s, "u:a")
}

// TestProcess_response_that_cannot_be_read fails its call at once. The process goes on.
func TestProcess_response_that_cannot_be_read(t *testing.T) {
	s := serveProcess(t, "", Options{})
	first := mustCall(t, s, "u:a")
	for _, tool := range []string{"garbled", "cut"} {
		if _, err := callProcess(t, s, "u:a", tool, "{}"); err == nil || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*UnavailableError)) {
			t.Errorf("%s: got %v", tool, err)
		}
	}
	if again := mustCall(t, s, "u:a"); again.PID != first.PID {
		t.Error("the process was started again")
	}
}

// TestProcess_that_does_not_read holds up no other call for longer than maxWrite.
func TestProcess_that_does_not_read(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as maxWrite")
	}
	t.Parallel()
	s := serveProcess(t, "", Options{})
	if _, err := callProcess(t, s, "u:a", "deaf", "{}"); err != nil {
		t.Fatal(err)
	}
	large := `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, err := callProcess(t, s, "u:a", "t", large); err != nil && !errors.As(err, new(*UnavailableError)) {
				t.Errorf("got %v", err)
			}
		})
	}
	all.Wait()
	mustCall(t, s, "u:a")
}

// TestProcess_for_each_user limits the number of processes.
func TestProcess_for_each_user(t *testing.T) {
	s := serveProcess(t, "", Options{OwnProcesses: true, MaxProcesses: 2})
	a, b := mustCall(t, s, "u:a"), mustCall(t, s, "u:b")
	if a.PID == b.PID || mustCall(t, s, "u:a").PID != a.PID {
		t.Errorf("processes %d and %d", a.PID, b.PID)
	}
	c := mustCall(t, s, "u:c") // in place of b, which was unused for longer
	testkit.Eventually(t, "a process ends to make room", func() bool { return !b.runs() })
	if !a.runs() || !c.runs() {
		t.Error("another process has ended")
	}
	held := s.sessionOf("u:a")
	_, release, err := s.acquire(t.Context(), "u:a", nil)
	if err != nil || held.session == nil {
		t.Fatal(err)
	}
	_, other, err := s.acquire(t.Context(), "u:c", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := callProcess(t, s, "u:d", "t", "{}"); !errors.Is(err, errUnsent) {
		t.Errorf("got %v", err)
	}
	release()
	other()
	mustCall(t, s, "u:d")
}

// TestProcess_ends_without_goroutines leaves no goroutine.
func TestProcess_ends_without_goroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	s := serveProcess(t, "", Options{OwnProcesses: true})
	began := time.Now()
	for _, owner := range []share.Owner{"u:a", "u:b"} {
		mustCall(t, s, owner)
	}
	s.Close()
	testkit.Eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= before })
	if _, err := callProcess(t, s, "u:a", "t", "{}"); err == nil {
		t.Errorf("a call succeeded after Close, after %v", time.Since(began))
	}
}
