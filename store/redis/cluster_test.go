package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

const slots = 16384

// startCluster starts a cluster of three masters, and returns a client of each.
func startCluster(t *testing.T, arguments ...string) (servers []*goredis.Client, address string, addresses []string) {
	t.Helper()
	const masters = 3
	bus := make([]int, masters)
	for i := range masters {
		bus[i] = testkit.FreePort(t)
		url, _ := storetest.Redis(t, append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", fmt.Sprint(bus[i]),
		}, arguments...)...)
		options, err := goredis.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		client := goredis.NewClient(options)
		t.Cleanup(func() { _ = client.Close() })
		servers = append(servers, client)
		if err := client.ClusterAddSlotsRange(t.Context(), i*slots/masters, (i+1)*slots/masters-1).Err(); err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, options.Addr)
	}
	for i, addr := range addresses[1:] {
		_, port, _ := strings.Cut(addr, ":")
		if err := servers[0].Do(t.Context(), "CLUSTER", "MEET", "127.0.0.1", port, bus[i+1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the cluster is complete", func() bool {
		for _, client := range servers {
			info := client.ClusterInfo(t.Context()).Val()
			nodes := client.ClusterNodes(t.Context()).Val()
			if !strings.Contains(info, "cluster_state:ok") || strings.Count(nodes, "connected") != masters {
				return false
			}
		}
		return true
	})
	return servers, "redis://" + addresses[0], addresses[1:]
}

// TestStore_cluster runs the suite on a cluster, each test with a prefix of its own. The prefixes are in different slots.
func TestStore_cluster(t *testing.T) {
	_, address, more := startCluster(t)
	runPrefixed(t, address, redis.Options{Cluster: true, Addresses: more, Indexed: []string{"b/", "k"}})
}

// TestCluster_shares checks the shares of owners, which are those of the server that has the slot.
func TestCluster_shares(t *testing.T) {
	const empty = 4 << 20 // bytes of a server of a cluster without records
	servers, address, more := startCluster(t, "--maxmemory", fmt.Sprint(storetest.ShareLimit+empty), "--maxmemory-policy", "noeviction")
	storetest.RunShares(t, func(t *testing.T) storetest.Place {
		for _, server := range servers {
			if err := server.FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		return storetest.Place{Open: func(t testing.TB) store.Store {
			return openWith(t, address, redis.Options{Cluster: true, Addresses: more})
		}}
	})
}

// TestCluster_slot checks that all keys are in one slot, that queues work, and that a store goes on after another server
// has got the slot.
func TestCluster_slot(t *testing.T) {
	servers, address, more := startCluster(t)
	var stores []*redis.Store
	for range 2 {
		s := openWith(t, address, redis.Options{Cluster: true, Addresses: more, Indexed: []string{"x/"}})
		t.Cleanup(func() { _ = s.Close() })
		stores = append(stores, s)
	}
	s, other := stores[0], stores[1]
	for _, key := range []string{"x/{a}", "x/{b}", "y"} {
		if err := s.Put(t.Context(), key, store.Change{Value: []byte("v"), TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	q := s.Queue("runs")
	if err := q.Push(t.Context(), store.Job{ID: "1", Owner: "user ada"}, ""); err != nil {
		t.Fatal(err)
	}
	id, ack := storetest.Take(t, q, "a")
	if id != "1" {
		t.Errorf("job %q", id)
	}
	ack()
	slot := servers[0].ClusterKeySlot(t.Context(), redis.DefaultPrefix).Val()
	from := int(slot) * len(servers) / slots
	for i, server := range servers {
		if n := server.DBSize(t.Context()).Val(); (n > 0) != (i == from) {
			t.Errorf("server %d has %d keys; slot %d is on server %d", i, n, slot, from)
		}
	}
	waited := make(chan error, 1)
	go func() {
		_, err := other.Wait(t.Context(), "moved", nil)
		waited <- err
	}()
	to := (from + 1) % len(servers)
	owner := servers[to].ClusterMyID(t.Context()).Val()
	servers[from].FlushAll(t.Context()) // a server gives up a slot only if it is empty
	for _, i := range []int{to, from, 3 - to - from} {
		if err := servers[i].Do(t.Context(), "CLUSTER", "SETSLOT", slot, "NODE", owner).Err(); err != nil {
			t.Fatal(err)
		}
	}
	// The servers may contradict each other for a moment.
	testkit.Eventually(t, "a change after the slot has moved", func() bool {
		return s.Put(t.Context(), "moved", store.Change{Value: []byte("v"), TTL: time.Hour}) == nil
	})
	if err := <-waited; err != nil {
		t.Errorf("Wait on another node: %v", err)
	}
	if n := servers[to].DBSize(t.Context()).Val(); n == 0 {
		t.Error("the new server of the slot has no record")
	}
}
