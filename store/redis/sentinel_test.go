package redis_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

// startSentinel starts a master, a replica and a sentinel with a password. It returns the address of the sentinel, the
// options for it, and a function that kills the master. On a busy machine, the sentinel must not replace a master that is
// only slow, so it waits 2 seconds.
func startSentinel(t *testing.T) (address string, options redis.Options, kill func()) {
	t.Helper()
	const password = "hunter2"
	master, kill := storetest.Redis(t, "--requirepass", password, "--masterauth", password)
	_, port, _ := strings.Cut(strings.TrimSuffix(master, "/0"), "127.0.0.1:")
	storetest.Redis(t, "--requirepass", password, "--masterauth", password, "--replicaof", "127.0.0.1 "+port, "--repl-diskless-sync-delay", "0")
	program, err := exec.LookPath("redis-server")
	if err != nil {
		testkit.Missing(t, "redis-server is not installed")
	}
	sentinel := testkit.FreePort(t)
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, `port %d
bind 127.0.0.1
requirepass of-the-sentinel
sentinel monitor mymaster 127.0.0.1 %s 1
sentinel auth-pass mymaster %s
sentinel down-after-milliseconds mymaster 2000
sentinel failover-timeout mymaster 3000
`, sentinel, port, password), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, config, "--sentinel")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	watched := goredis.NewSentinelClient(&goredis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", sentinel), Password: "of-the-sentinel"})
	t.Cleanup(func() { _ = watched.Close() })
	testkit.Eventually(t, "the sentinel knows the replica", func() bool {
		replicas, err := watched.Replicas(t.Context(), "mymaster").Result()
		return err == nil && len(replicas) == 1 && replicas[0]["master-link-status"] == "ok"
	})
	return fmt.Sprintf("redis://:%s@127.0.0.1:%d", password, testkit.FreePort(t)), redis.Options{ // no sentinel listens at the first port
		Sentinel: "mymaster", Addresses: []string{fmt.Sprintf("127.0.0.1:%d", sentinel)}, SentinelPassword: "of-the-sentinel",
	}, kill
}

// TestStore_sentinel runs the suite behind a sentinel. Then the master ends: calls fail with an error of the store until
// the replica is promoted. After that the store goes on, and a change wakes Wait on another node.
func TestStore_sentinel(t *testing.T) {
	address, options, kill := startSentinel(t)
	runPrefixed(t, address, options)
	open := func(options redis.Options) *redis.Store {
		s := openWith(t, address, options)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	unknown := options
	unknown.Sentinel = "other"
	if _, err := open(unknown).Get(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "sentinel other") {
		t.Errorf("a master that the sentinel does not know: %v", err)
	}

	s, other := open(options), open(options)
	put := func(value string) error {
		ctx, done := context.WithTimeout(t.Context(), 10*time.Second)
		defer done()
		return s.Put(ctx, "k", store.Change{Value: []byte(value), TTL: time.Hour})
	}
	if err := put("before"); err != nil {
		t.Fatal(err)
	}
	master := goredis.NewClient(masterOptions(t, options, address))
	defer master.Close()
	testkit.Eventually(t, "the replica has the record", func() bool { return master.Wait(t.Context(), 1, time.Second).Val() == 1 })
	waiting := make(chan error, 1)
	wait := func(seen string) {
		for { // a caller that gets an error of the store waits again
			_, err := other.Wait(t.Context(), "k", []byte(seen))
			if err == nil || !strings.Contains(err.Error(), "redis at sentinel mymaster") {
				waiting <- err
				return
			}
		}
	}
	go wait("before")
	kill()
	failures := 0
	testkit.Eventually(t, "the store goes on", func() bool {
		start := time.Now()
		err := put("after")
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("a call took %s", took)
		}
		if err != nil {
			failures++
			if !strings.Contains(err.Error(), "redis at sentinel mymaster") || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "of-the-sentinel") {
				t.Errorf("error %v", err)
			}
		}
		return err == nil
	})
	if failures == 0 {
		t.Error("no call failed while there was no master")
	}
	if err := <-waiting; err != nil {
		t.Errorf("Wait: %v", err)
	}
	if r, err := other.Get(t.Context(), "k"); err != nil || string(r.Value) != "after" {
		t.Errorf("value %q, error %v", r.Value, err)
	}
}

// masterOptions returns the options for a client of the master.
func masterOptions(t *testing.T, options redis.Options, address string) *goredis.Options {
	t.Helper()
	watched := goredis.NewSentinelClient(&goredis.Options{Addr: options.Addresses[0], Password: options.SentinelPassword})
	defer watched.Close()
	at, err := watched.GetMasterAddrByName(t.Context(), options.Sentinel).Result()
	if err != nil {
		t.Fatal(err)
	}
	o, err := goredis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	o.Addr = net.JoinHostPort(at[0], at[1])
	return o
}
