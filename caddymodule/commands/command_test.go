package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// TestRun_connects_again_and_ends checks that the command goes on when Caddy closes the connection, and
// ends without an error when it is interrupted.
func TestRun_connects_again_and_ends(t *testing.T) {
	var requests atomic.Int32
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.String(); got != "/agents/calls?outcome=ok&tool=get+Trip" {
			t.Errorf("the command requests %s", got)
		}
		n := requests.Add(1)
		fmt.Fprintf(w, "{\"tool\":\"call%d\"}\n\n", n)
		if n == 2 {
			_ = http.NewResponseController(w).Flush()
			<-done
		}
	}))
	defer server.Close()
	defer close(done)
	read, write := io.Pipe()
	f := &follow{address: strings.TrimPrefix(server.URL, "http://"), query: url.Values{"tool": {"get Trip"}, "outcome": {"ok"}}, output: Terminal{Writer: write, JSON: true}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	want := "{\"tool\":\"call1\"}\n{\"tool\":\"call2\"}\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(read, got); err != nil || string(got) != want {
		t.Errorf("the command prints %q, %v; want %q", got, err, want)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("interrupted, the command returns %v", err)
	}
}

func TestRun_fails_if_Caddy_is_not_there(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := strings.TrimPrefix(server.URL, "http://")
	for name, address := range map[string]string{"404": address, "closed": "127.0.0.1:1"} {
		f := &follow{address: address, output: Terminal{Writer: io.Discard}}
		if err := f.run(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	server.Close()
}

// TestRunE_prints_a_sentence checks that errors are sentences on standard error, without control characters, and have the
// exit status that they ask for.
func TestRunE_prints_a_sentence(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"plain":  {errors.New("no tool \x1b[2J\u009b"), "Error: no tool ·[2J·\n"},
		"status": {&ExitError{Status: 4, Err: errors.New("not accepted")}, "Error: not accepted\n"},
	} {
		cmd := &cobra.Command{Use: "x", SilenceUsage: true, RunE: RunE(func(caddycmd.Flags) error { return test.err })}
		var stderr bytes.Buffer
		cmd.SetErr(&stderr)
		cmd.SetArgs([]string{})
		err := cmd.Execute()
		if err == nil || stderr.String() != test.want {
			t.Errorf("%s: %v, printed %q, want %q", name, err, stderr.String(), test.want)
		}
		if _, wanted := errors.AsType[*ExitError](test.err); wanted && !strings.Contains(err.Error(), "4") {
			t.Errorf("%s: got %v, want the exit status 4", name, err)
		}
	}
}

func TestRefusal_is_the_message(t *testing.T) {
	for problem, want := range map[string]string{
		"HTTP 400: {\"error\":\"since: not a time\"}\n": "since: not a time",
		"HTTP 404: <html>": "HTTP 404",
	} {
		if got := refusal(problem).Error(); !strings.Contains(got, want) || strings.ContainsAny(got, "{<") {
			t.Errorf("%q: got %q, want %q", problem, got, want)
		}
	}
}

// TestReady checks which responses `caddy agents ready` accepts.
func TestReady(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health/ready" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	for address, want := range map[string]string{server.URL + "/health/ready": "", server.URL + "/up/ready": "503", "http://127.0.0.1:1/": "refused", "::": "parse"} {
		cmd := ReadyCommand()
		cmd.SetArgs([]string{address})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
}
