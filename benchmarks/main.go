// Command benchmarks measures Fairway beside its baselines, on this machine and
// in one run, and prints a table of ratios:
//
//	go run ./benchmarks            every comparison, about five minutes
//	go run ./benchmarks -short     the same with less care, under half a minute
//
// Reading a document is compared with kin-openapi loading it: each read is a
// child process of this program (documents.go), whose CPU time and peak memory
// the system tells. Calls are compared with plain Caddy doing the same REST
// call: a real Caddy with Fairway (servers.go) stands between a small API in a
// process of its own and a closed-loop load generator (load.go), and one process
// serves both sides, so that they differ in nothing but the way taken through
// it. CPU time and allocations of that process come from its own metrics.
//
// Both sides take turns, A B A B, in short rounds. A ratio is the median of the
// ratios of the rounds, so that whatever else the machine does falls on both
// sides alike. The times themselves say little and are never a target.
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

// settings are what the command line chooses.
type settings struct {
	caddy   string        // a built binary; "" builds ./cmd/caddy
	rounds  int           // of each comparison of calls
	segment time.Duration // how long one side of a round runs
	reads   int           // of each document by each side
	history []int         // calls of an Engagement, before more are measured
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
	// The program is also each of its own child processes.
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
