package bodies

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/share"
)

// pipes is a listener whose connections are in memory, so that they run in the time of a synctest bubble.
type pipes struct {
	accept chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// readAt serves one request as Caddy does, with the default of read_idle_timeout, and returns how reading its body ended.
// The client sends the body by write.
func readAt(t *testing.T, a *Section, length string, minRate int64, write func(io.Writer)) (n int, took time.Duration, err error) {
	t.Helper()
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	done := make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		reader := &caddyhttp.IdleTimeoutReader{
			ReadCloser: r.Body, Ctrl: http.NewResponseController(w), Logger: zap.NewNop(), DrainDeadline: true,
			Deadline: caddyhttp.IdleDeadline{Start: time.Now(), Timeout: time.Minute, MinRate: minRate},
		}
		defer reader.HandlerDone()
		r.Body = reader
		r = r.WithContext(caddyhttp.ContextWithIdleTimeouts(r.Context(), reader, nil))
		if release := a.Bound(r, func(*http.Request) share.Owner { return "user ada" }); release != nil {
			defer release()
		}
		began := time.Now()
		var read []byte
		read, err = io.ReadAll(r.Body)
		n, took = len(read), time.Since(began)
	})}
	var ended sync.WaitGroup
	ended.Go(func() { _ = server.Serve(p) })
	client, conn := net.Pipe()
	p.accept <- conn
	ended.Go(func() { _, _ = io.Copy(io.Discard, client) })
	ended.Go(func() {
		_, _ = io.WriteString(client, "POST / HTTP/1.1\r\nHost: a\r\n"+length+"\r\n\r\n")
		write(client)
	})
	<-done
	_ = client.Close()
	_ = server.Shutdown(context.Background())
	ended.Wait()
	return n, took, err
}

func bounded(limit int64) *Section { return &Section{bound: bodyBound(limit)} }

// TestBodies_have_a_minimum_speed checks that a body that stops or trickles ends, and that one at twice the speed does not.
func TestBodies_have_a_minimum_speed(t *testing.T) {
	trickle := func(size, each int, pause time.Duration) func(io.Writer) {
		return func(w io.Writer) {
			for range size / each {
				if _, err := io.WriteString(w, strings.Repeat("x", each)); err != nil {
					return
				}
				time.Sleep(pause) // of the bubble
			}
		}
	}
	for name, c := range map[string]struct {
		length  string
		minRate int64 // that the operator has configured
		write   func(io.Writer)
		ends    bool // the body is refused
		within  time.Duration
	}{
		"stops at once":              {"Content-Length: 100", 0, trickle(0, 1, 0), true, 10 * time.Second},
		"small, stops":               {"Content-Length: 100", 0, trickle(50, 50, 0), true, 11 * time.Second},
		"small, trickles":            {"Content-Length: 16384", 0, trickle(16384, 1, time.Second), true, 11 * time.Second},
		"large, stops near its end":  {"Content-Length: 1000000", 0, trickle(999_000, 1000, 0), true, 30 * time.Second},
		"large, trickles":            {"Content-Length: 1000000", 0, trickle(1_000_000, 100, time.Second), true, 30 * time.Second},
		"small at twice the speed":   {"Content-Length: 16384", 0, trickle(16384, 2048, time.Second), false, 10 * time.Second},
		"large at twice the speed":   {"Content-Length: 204800", 0, trickle(204800, 2048, time.Second), false, 2 * time.Minute},
		"the operator's lower speed": {"Content-Length: 100", 1, trickle(50, 1, 2*time.Second), true, 111 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, took, err := readAt(t, bounded(0), c.length, c.minRate, c.write)
				if ended := errors.Is(err, os.ErrDeadlineExceeded); ended != c.ends || took > c.within {
					t.Errorf("%v after %s, want refused: %t within %s", err, took, c.ends, c.within)
				}
				if c.minRate > 0 && took < 20*time.Second {
					t.Errorf("the speed of the operator does not count: refused after %s", took)
				}
			})
		})
	}
}

// body returns a request with a body of the size; -1 as the declared length means that it has none.
func body(size, declared int64) *http.Request {
	r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "/", io.LimitReader(zeros{}, size))
	r.ContentLength = declared
	return r
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestBodies_count_while_they_are_in_memory checks what bodies take of the bound, and that it is returned.
func TestBodies_count_while_they_are_in_memory(t *testing.T) {
	a := bounded(1 << 20)
	used := func() int64 { return a.bound.Usage().Used }
	read := func(r *http.Request) (release func(), err error) {
		release = a.Bound(r, func(*http.Request) share.Owner { return "user ada" })
		_, err = io.Copy(io.Discard, r.Body)
		return release, err
	}
	for name, c := range map[string]struct{ size, declared, least, most int64 }{
		"small":           {16 << 10, 16 << 10, 0, 0},
		"declared":        {300 << 10, 300 << 10, 300 << 10, 300 << 10},
		"of unknown size": {300 << 10, -1, 300 << 10, 400 << 10},
	} {
		release, err := read(body(c.size, c.declared))
		if n := used(); err != nil || n < c.least || n > c.most {
			t.Errorf("%s: %v, %d bytes count, want %d to %d", name, err, n, c.least, c.most)
		}
		if release != nil {
			release()
		}
		if n := used(); n != 0 {
			t.Errorf("%s: %d bytes count after the end", name, n)
		}
	}
	if _, err := read(body(2<<20, -1)); !isFull(err) {
		t.Errorf("%v, want that the limit is reached", err)
	}
}

func isFull(err error) bool {
	_, full := errors.AsType[*share.FullError](err)
	return full
}

// TestBodies_kept_after_the_response_count checks Keep, which moves the units to another holder.
func TestBodies_kept_after_the_response_count(t *testing.T) {
	a := bounded(1 << 20)
	r := body(100<<10, 100<<10)
	release := a.Bound(r, func(*http.Request) share.Owner { return "user ada" })
	_, _ = io.Copy(io.Discard, r.Body)
	kept := r.Body.(*countedBody).Keep()
	release()
	if n := a.bound.Usage().Used; n != 100<<10 {
		t.Errorf("%d bytes count after the response, want the body", n)
	}
	kept()
	if n := a.bound.Usage().Used; n != 0 {
		t.Errorf("%d bytes count in the end", n)
	}
}
