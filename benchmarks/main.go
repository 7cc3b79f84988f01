// Command benchmarks compares Fairway with baselines on this machine in one run, and
// prints a table of ratios:
//
//	go run ./benchmarks            all comparisons, about seven minutes
//	go run ./benchmarks -short     shorter measurements, under a minute
//	go run ./benchmarks -only calls,large
//	                               some comparisons; an unknown name prints all names
//
// Documents: reading a document is compared with loading it in kin-openapi. Each read runs
// in a child process of this program (documents.go). The system reports the CPU time and
// the peak memory of the process.
//
// Calls: tool calls are compared with the same REST call through plain Caddy. A closed-loop
// load generator (load.go) sends requests to a real Caddy with Fairway (servers.go), which
// forwards them to a small API in a separate process. One Caddy process serves both sides,
// so they differ only in the handlers. CPU time and allocations of the gateway come from
// Caddy's metrics. On a busy machine, the CPU time per call is steadier than the calls per
// second.
//
// Hosted agents: conversations are measured, not compared (conversations.go). The model, the API and the users are other
// processes, so the CPU time is that of the gateway alone.
//
// Both sides alternate (A B A B) in short rounds. A ratio is the median of the ratios of the
// rounds, so other load on the machine affects both sides alike. The absolute times are
// for information only and are never a target.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// settings are the command-line options.
type settings struct {
	caddy   string        // path of a binary; "" builds ./cmd/caddy
	base    string        // path of the binary of another version; "" for none
	stored  int           // bytes in the stores of both
	rounds  int           // of each comparison of calls
	segment time.Duration // duration of one side of a round
	reads   int           // of each document by each reader
	history []int         // numbers of calls in an Engagement before more are measured
	talks   int           // number of conversations with a hosted agent
	crowd   int           // number of runs of one user, beside those of another one
	slow    time.Duration // of a response of the model in that comparison
	profile string        // a directory; "" takes no profile
	only    []string      // names of the comparisons to make; empty for all
}

// wants reports whether the comparison with that name is made.
func (s *settings) wants(name string) bool {
	return len(s.only) == 0 || slices.Contains(s.only, name)
}

// comparisons are all comparisons, in the order in which they are made.
var comparisons = []struct {
	name    string
	compare func(context.Context, *table, *gateway, settings) error // nil for documents, which need no gateway
}{
	{"documents", nil},
	{"calls", compareToolCalls},
	{"bare", compareBare},
	{"large", compareLarge},
	{"search", compareSearch},
	{"shortened", compareShortened},
	{"inspected", compareInspected},
	{"recorded", compareRecorded},
	{"guarded", compareGuarded},
	{"archived", compareArchived},
	{"stores", compareStores},
	{"histories", compareHistories},
	{"nodes", compareNodes},
	{"contexts", compareContexts},
	{"console", compareConsole},
	{"rivals", compareRivals},
	{"lists", compareLists},
	{"tasks", compareTasks},
	{"files", compareFiles},
	{"mcpservers", compareMCPServers},
	{"conversations", measureConversations},
	{"shares", compareShares},
}

// checkOnly returns an error if a name is not one of a comparison.
func (s *settings) checkOnly() error {
	names := make([]string, 0, len(comparisons))
	for _, c := range comparisons {
		names = append(names, c.name)
	}
	for _, name := range s.only {
		if !slices.Contains(names, name) {
			return fmt.Errorf("-only %q: no such comparison; use some of %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	// The program also runs itself as each of its child processes.
	if len(args) > 0 {
		switch args[0] {
		case "upstream":
			return serveUpstream(ctx)
		case "mcp-upstream":
			return serveMCP(ctx)
		case "model":
			return serveModel(ctx)
		case "read":
			return read(args[1:])
		}
	}

	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	short := flags.Bool("short", false, "fewer and shorter rounds")
	caddy := flags.String("caddy", "", "a Caddy `binary` with Fairway in it (default: build ./benchmarks/gateway)")
	base := flags.String("base", "", "a Caddy `binary` with another version of Fairway, whose embedded store is compared")
	stored := flags.Int("stored", 500, "`MB` in the stores that are compared")
	profile := flags.String("profile", "", "only write CPU and allocation profiles of the gateway under calls to `dir`")
	only := flags.String("only", "", "only make the comparisons with these `names`, such as calls,large")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	s := settings{caddy: *caddy, base: *base, stored: *stored << 20, profile: *profile, rounds: 11, segment: 400 * time.Millisecond, reads: 5, history: []int{10, 1000, 100_000}, talks: 1000, crowd: 3000, slow: time.Second}
	if *short {
		s.rounds, s.segment, s.reads, s.history = 3, 150*time.Millisecond, 1, []int{10, 1000}
		s.talks, s.crowd, s.slow = 50, 150, 150*time.Millisecond
	}

	if *only != "" {
		s.only = strings.Split(*only, ",")
	}
	if err := s.checkOnly(); err != nil {
		return err
	}

	dir, err := os.MkdirTemp("", "fairway-benchmarks-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	t := newTable(os.Stdout)
	if s.profile == "" && s.wants("documents") {
		if err := compareDocuments(ctx, t, dir, s); err != nil {
			return err
		}
		if len(s.only) == 1 {
			return nil // no comparison needs the gateway
		}
	}
	return compareCalls(ctx, t, dir, s)
}
