package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/postgres"
	"github.com/fairwayhq/fairway/store/storetest"
)

func TestQueue(t *testing.T) {
	storetest.RunQueue(t, func(t *testing.T) storetest.Place {
		address := storetest.Postgres(t)
		return storetest.Place{Nodes: true, Open: func(t testing.TB) store.Store { return openStore(t, address) }}
	}, func(q store.Queue) { q.(*postgres.Queue).SetIdle(time.Millisecond) })
}

// latency is how long the network delays the response that has the marked bytes, after it has called seen.
const latency = 100 * time.Millisecond

// slowTo returns the address of a network to the server, which calls seen with each response that has mark, and
// then delays it.
func slowTo(t *testing.T, address, mark string, seen func()) string {
	t.Helper()
	_, rest, _ := strings.Cut(address, "@")
	host, _, _ := strings.Cut(rest, "/")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", host)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, client) }()
				buffer := make([]byte, 1<<16)
				for {
					n, err := server.Read(buffer)
					if bytes.Contains(buffer[:n], []byte(mark)) {
						seen()
						<-time.After(latency)
					}
					if _, failed := client.Write(buffer[:n]); err != nil || failed != nil {
						return
					}
				}
			}()
		}
	}()
	return strings.Replace(address, host, listener.Addr().String(), 1)
}

// TestQueue_take_ends_while_the_server_responds checks that no job is lost if a node stops when the server has taken the
// job for it, and the response is on its way.
func TestQueue_take_ends_while_the_server_responds(t *testing.T) {
	address := storetest.Postgres(t)
	ctx, stop := context.WithCancel(t.Context())
	slow := openStore(t, slowTo(t, address, "a job of bob", stop)).Queue("runs")
	other := openStore(t, address).Queue("runs")
	if err := other.Push(t.Context(), store.Job{ID: "a job of bob"}, ""); err != nil {
		t.Fatal(err)
	}
	if job, _, err := slow.Take(ctx, "a", nil); err != nil || job.ID != "a job of bob" {
		t.Errorf("job %q, error %v", job.ID, err)
	}
	if job, _, err := slow.Take(ctx, "a", nil); err == nil {
		t.Errorf("job %q after the end", job.ID)
	}
}

// TestClose_sends_notifications of jobs that were pushed before: a node that stops passes on its runs last.
func TestClose_sends_notifications(t *testing.T) {
	address := storetest.Postgres(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	openStore(t, address) // creates the schema
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "LISTEN "+postgres.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		s := openStore(t, address)
		if err := s.Queue(fmt.Sprint(i)).Push(ctx, store.Job{ID: "1"}, ""); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		within, done := context.WithTimeout(ctx, 10*time.Second)
		if _, err := conn.WaitForNotification(within); err != nil {
			t.Fatalf("no notification of push %d: %v", i, err)
		}
		done()
	}
}
