package integration

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// auditedSite is agentSite with an archive in a file.
func auditedSite(address, store, archive string, api *orders) string {
	return fmt.Sprintf(`{
	admin off
	agents {
		toolset orders orders.yaml
		store %s
		audit {
			sink file %s
		}
	}
}
http://%s {
	mcp /mcp orders
	otc /otc orders
	oagent buyer.yaml {
		engagement {http.request.header.X-Engagement}
	}
	reverse_proxy %s
}
`, store, archive, address, strings.TrimPrefix(api.URL, "http://"))
}

// TestAudit_of_a_killed_node kills a node again and again while clients make guarded calls. No entry leaves it before it is durable, so
// that the chain of the archive is whole.
func TestAudit_of_a_killed_node(t *testing.T) {
	t.Parallel()
	kills := 20
	if testing.Short() {
		kills = 5
	}
	const clients, calls = 6, 30 // calls between two kills
	api, dir, address := startOrders(t), t.TempDir(), freeAddress(t)
	close(api.hold)
	archive := filepath.Join(dir, "audit.jsonl")
	writeFile(t, filepath.Join(dir, "buyer.yaml"), limitedAgent(1_000_000))
	for round := range kills {
		node := startBrittle(t, dir, address, auditedSite(address, "bolt "+filepath.Join(dir, "store.db"), archive, api))
		var made atomic.Int64
		var group sync.WaitGroup
		for client := range clients {
			group.Go(func() {
				for n := 0; ; n++ {
					if _, err := node.buy(t.Context(), client, fmt.Sprintf("%d/%d/%d", round, client, n)); err != nil {
						return // the node is dead
					}
					made.Add(1)
				}
			})
		}
		waitFor(t, waitTimeout, "the calls", func() bool { return made.Load() >= calls })
		node.kill()
		group.Wait()
	}
	if out, err := exec.Command(caddy, "agents", "audit", "verify", archive).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
