package redis_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

// TestAddress checks that errors about invalid addresses contain no secret.
func TestAddress(t *testing.T) {
	for _, address := range []string{
		"", "127.0.0.1:6379", "http://:hunter2@host", "redis://user:hunter2@host:port", "redis://:hunter2%@host/0",
		"redis://:hunter2@host/zero", "redis://:hunter2@host/0?hunter2=1", "unix://", "redis://:hunter2@ho st",
		"redis:6379", "rediss:hunter2@cache:6379", "redis://:hunter2@:6379/0", "redis:///0", "unix://run/redis.sock",
	} {
		_, err := redis.Open(address, redis.Options{})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "redis://host:6379/0") {
			t.Errorf("%s: error %v", address, err)
		}
	}
	for _, address := range []string{"redis://host", "rediss://user:secret@host:6380/2", "unix:///run/redis.sock?db=1"} {
		if err := redis.Check(address, redis.Options{}); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// all calls each method and returns the errors.
func all(ctx context.Context, s store.Store) map[string]error {
	c := store.Change{Value: []byte("x"), TTL: time.Hour}
	_, getErr := s.Get(ctx, "k")
	_, readErr := s.Read(ctx, "k", 0, 1)
	_, keysErr := s.Keys(ctx, "", "", 1)
	_, waitErr := s.Wait(ctx, "k", []byte("x"))
	return map[string]error{
		"Get": getErr, "Read": readErr, "Keys": keysErr, "Wait": waitErr,
		"Put": s.Put(ctx, "k", c), "Delete": s.Delete(ctx, "k"),
		"Update": s.Update(ctx, "k", func(store.Record) (store.Change, error) { return c, nil }),
	}
}

// TestDown checks that each method fails quickly with a clear error.
func TestDown(t *testing.T) {
	address, kill := storetest.Redis(t, "--requirepass", "hunter2")
	address = strings.Replace(address, "redis://", "redis://:hunter2@", 1)
	s := openStore(t, address)
	defer s.Close()
	if err := s.Put(t.Context(), "k", store.Change{Value: []byte("x"), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := s.Wait(context.Background(), "k", []byte("x"))
		waited <- err
	}()
	kill()
	var clients sync.WaitGroup
	start := time.Now()
	for range 64 {
		clients.Go(func() {
			for name, err := range all(t.Context(), s) {
				if err == nil || !strings.Contains(err.Error(), "redis at tcp://127.0.0.1:") || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	clients.Wait()
	if err := <-waited; err == nil {
		t.Error("Wait returns without an error")
	}
	if took := time.Since(start); took > testkit.Patience {
		t.Errorf("that took %s", took)
	}
}

// TestSilent connects to a server that accepts connections and never responds.
func TestSilent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := openStore(t, "redis://"+listener.Addr().String()+"?read_timeout=100ms&dial_timeout=100ms")
	defer s.Close()
	_, err = s.Get(t.Context(), "k")
	if err == nil || !testkit.ContainsAll(err.Error(), "time") {
		t.Errorf("error %v", err)
	}
}

func TestPassword(t *testing.T) {
	address, _ := storetest.Redis(t, "--requirepass", "right")
	s := openStore(t, strings.Replace(address, "redis://", "redis://:wrong-secret@", 1))
	defer s.Close()
	for name, err := range all(t.Context(), s) {
		if err == nil || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFull checks that a server without memory gives ErrFull.
func TestFull(t *testing.T) {
	address, _ := storetest.Redis(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	s := openStore(t, address)
	defer s.Close()
	for range 10 {
		err := s.Put(t.Context(), "k", store.Change{Entries: [][]byte{make([]byte, 500_000)}, TTL: time.Hour})
		if errors.Is(err, store.ErrFull) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Error("5 MB fit into 1")
}

// TestPrefix checks that stores with different prefixes are isolated.
func TestPrefix(t *testing.T) {
	address, _ := storetest.Redis(t)
	var stores []store.Store
	for _, prefix := range []string{"a*:", "ab:"} {
		s := openWith(t, address, redis.Options{Prefix: prefix})
		defer s.Close()
		stores = append(stores, s)
		if err := s.Put(t.Context(), "k"+prefix, store.Change{Value: []byte(prefix), TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := stores[0].Keys(t.Context(), "", "", 10)
	if err != nil || len(keys) != 1 || keys[0] != "ka*:" {
		t.Errorf("keys %q, error %v", keys, err)
	}
	if _, err := stores[1].Get(t.Context(), "ka*:"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// TestUnix connects through a Unix socket.
func TestUnix(t *testing.T) {
	socket := t.TempDir() + "/redis.sock"
	if len(socket) > 100 {
		t.Skip("the temporary folder's name is too long for a socket")
	}
	storetest.Redis(t, "--unixsocket", socket)
	s := openStore(t, "unix://"+socket+"?db=1")
	defer s.Close()
	if err := s.Put(t.Context(), "k", store.Change{Value: []byte("x"), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Get(t.Context(), "k"); err != nil || string(r.Value) != "x" {
		t.Errorf("%q, error %v", r.Value, err)
	}
}
