// Command benchmarks compares Fairway with baselines on this machine in one run, and
// prints a table of ratios:
//
//	go run ./benchmarks            all comparisons, about five minutes
//	go run ./benchmarks -short     shorter measurements, under half a minute
//
// Documents: reading a document is compared with loading it in kin-openapi. Each read runs
// in a child process of this program (documents.go). The system reports the CPU time and
// the peak memory of the process.
//
// Calls: tool calls are compared with the same REST call through plain Caddy. A closed-loop
// load generator (load.go) sends requests to a real Caddy with Fairway (servers.go), which
// forwards them to a small API in a separate process. One Caddy process serves both sides,
// so they differ only in the handlers. CPU time and allocations come from Caddy's metrics.
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
	"time"
)

// settings are the command-line options.
type settings struct {
	caddy   string        // path of a binary; "" builds ./cmd/caddy
	rounds  int           // of each comparison of calls
	segment time.Duration // duration of one side of a round
	reads   int           // of each document by each reader
	history []int         // numbers of calls in an Engagement before more are measured
	profile string        // a directory; "" takes no profile
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
		case "read":
			return read(args[1:])
		}
	}

	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	short := flags.Bool("short", false, "fewer and shorter rounds")
	caddy := flags.String("caddy", "", "a Caddy `binary` with Fairway in it (default: build ./cmd/caddy)")
	profile := flags.String("profile", "", "only write CPU and allocation profiles of the gateway under calls to `dir`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	s := settings{caddy: *caddy, profile: *profile, rounds: 11, segment: 400 * time.Millisecond, reads: 5, history: []int{10, 1000, 100_000}}
	if *short {
		s.rounds, s.segment, s.reads, s.history = 3, 150*time.Millisecond, 1, []int{10, 1000}
	}

	dir, err := os.MkdirTemp("", "fairway-benchmarks-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	t := newTable(os.Stdout)
	if s.profile == "" {
		if err := compareDocuments(ctx, t, dir, s); err != nil {
			return err
		}
	}
	return compareCalls(ctx, t, dir, s)
}
