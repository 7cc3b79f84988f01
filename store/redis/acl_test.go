package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

// rights is the line of docs/store.md, without the name of the user and the password.
func rights(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/store.md")
	if err != nil {
		t.Fatal(err)
	}
	const begin = "ACL SETUSER fairway on >PASSWORD "
	_, after, found := strings.Cut(string(text), begin)
	line, _, _ := strings.Cut(after, "\n```")
	if !found {
		t.Fatalf("docs/store.md has no line %q", begin)
	}
	return strings.Fields(strings.ReplaceAll(line, "\\\n", " "))
}

// TestStore_acl runs the suite as the user of docs/store.md, over TLS with a certificate of a test CA.
func TestStore_acl(t *testing.T) {
	roots, certificate, key := storetest.Certificate(t)
	port := testkit.FreePort(t)
	plain, _ := storetest.Redis(t, "--tls-port", fmt.Sprint(port), "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no",
		"--maxmemory", "1gb", "--maxmemory-policy", "noeviction")
	admin := goredis.NewClient(func() *goredis.Options { o, _ := goredis.ParseURL(plain); return o }())
	defer admin.Close()
	set := []any{"ACL", "SETUSER", "fairway", "on", ">hunter2"}
	for _, word := range rights(t) {
		set = append(set, word)
	}
	if err := admin.Do(t.Context(), set...).Err(); err != nil {
		t.Fatalf("the line of docs/store.md: %v", err)
	}
	address := fmt.Sprintf("rediss://fairway:hunter2@127.0.0.1:%d", port)
	storetest.Run(t, func(t *testing.T) storetest.Place {
		if err := admin.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		return storetest.Place{Nodes: true, Open: func(t testing.TB) store.Store {
			return openWith(t, address, redis.Options{RootCAs: roots, Indexed: []string{"b/"}})
		}}
	})
	s := openWith(t, address, redis.Options{RootCAs: roots})
	defer s.Close()
	q := s.Queue("runs")
	q.(*redis.Queue).SetIdle(time.Millisecond)
	if err := q.Push(t.Context(), store.Job{ID: "1", Owner: "user ada"}, ""); err != nil {
		t.Fatal(err)
	}
	_, ack := storetest.Take(t, q, "a")
	ack()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := q.Take(ctx, "a", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if u := s.Usage(); len(u) != 1 || u[0].Limit != 1<<30 {
		t.Errorf("usage %+v", u)
	}
	if log, err := admin.ACLLog(t.Context(), 10).Result(); err != nil || len(log) > 0 {
		t.Errorf("the server has refused %+v, error %v", log, err)
	}
	if err := admin.Set(t.Context(), "other", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	elsewhere := openWith(t, address, redis.Options{RootCAs: roots, Prefix: "other:"})
	defer elsewhere.Close()
	if _, err := elsewhere.Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("another prefix: %v", err)
	}
	untrusting := openStore(t, address)
	defer untrusting.Close()
	if _, err := untrusting.Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without the CA: %v", err)
	}
}
