package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRun_connects_again_and_ends checks that the command goes on when Caddy closes the connection, and
// ends without an error when it is interrupted.
func TestRun_connects_again_and_ends(t *testing.T) {
	var requests atomic.Int32
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.String(); got != "/agents/calls?tool=get+Trip&user=ada" {
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
	f := &follow{address: strings.TrimPrefix(server.URL, "http://"), tool: "get Trip", user: "ada", printer: printer{json: true}, output: write}
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
		f := &follow{address: address, output: io.Discard}
		if err := f.run(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	server.Close()
}
