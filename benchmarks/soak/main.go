// Command soak runs Fairway for a long time under a moderate load with all that happens in operation, and checks
// that nothing is lost, done twice, or leaks:
//
//	go run ./benchmarks/soak              60 minutes, as each night
//	go run ./benchmarks/soak -for 3m      the same events in less time, as in .ci/run
//
// Two nodes share one Redis (site.go). 200 users call tools by three revisions of MCP, OTC, OCP and guarded REST,
// start tasks, runs of hosted agents and reviews, and hold streams (users.go). The API is partly slow and partly
// fails. Meanwhile the nodes reload, one of them is killed, and Redis stops (events). At the end the program
// compares the responses to clients with what the API has counted, and prints a table (measure.go). It needs
// redis-server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	users   = 200
	pace    = 2 * time.Second  // average time between two actions of a user
	drain   = 45 * time.Second // at most, until all that was begun has ended
	outage  = 4 * time.Second  // of Redis, and of a killed node
	settles = 15 * time.Second // after an outage, until its errors must have ended
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	length := flags.Duration("for", time.Hour, "how long users act, at least 1m")
	caddy := flags.String("caddy", "", "a Caddy `binary` with Fairway in it (default: build ./cmd/caddy)")
	keep := flags.Bool("keep", false, "keep the folder with the logs of the nodes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *length < time.Minute {
		return fmt.Errorf("-for %s is less than 1m", *length)
	}
	if *caddy != "" {
		absolute, err := filepath.Abs(*caddy) // nodes run in folders of their own
		if err != nil {
			return err
		}
		*caddy = absolute
	}
	dir, err := os.MkdirTemp("", "fairway-soak-")
	if err != nil {
		return err
	}
	if *keep {
		fmt.Println("logs are in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	s, err := startSite(ctx, dir, *caddy, *length)
	if err != nil {
		return err
	}
	defer s.stop()
	r := newReport(s)
	if err := r.before(ctx); err != nil {
		return err
	}
	acting, end := context.WithTimeout(ctx, *length)
	defer end()
	var all sync.WaitGroup
	for i := range users {
		u := newUser(i, s, r)
		all.Go(func() { u.act(acting, ctx) })
	}
	all.Go(func() { r.sample(acting) })
	all.Go(func() { events(acting, s, r, *length) })
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.after(ctx)
	return r.print()
}

// interval returns the time between two events of which there are many in an hour, and at least some in a short run.
func interval(length, usual time.Duration, atLeast int) time.Duration {
	return min(usual, length/time.Duration(atLeast+1))
}

// events reloads both nodes each minute, kills the second node each five minutes, and stops Redis twice.
func events(ctx context.Context, s *site, r *report, length time.Duration) {
	reload := time.NewTicker(interval(length, time.Minute, 2))
	defer reload.Stop()
	kill := time.NewTicker(interval(length, 5*time.Minute, 2))
	defer kill.Stop()
	stopRedis := time.NewTicker(length * 4 / 10) // after 40 % and 80 % of the run
	defer stopRedis.Stop()
	for {
		var err error
		deadline, _ := ctx.Deadline()
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(deadline) - outage - settles): // what happens later would not settle
			return
		case <-reload.C:
			r.event("reloads")
			err = s.reload(ctx)
		case <-kill.C:
			r.event("kills")
			r.trouble(outage + settles)
			err = s.restartNode(ctx)
			r.trouble(settles)
		case <-stopRedis.C:
			r.event("outages of Redis")
			r.trouble(outage + settles)
			err = s.restartRedis(ctx)
			r.trouble(settles)
		}
		if err != nil && ctx.Err() == nil {
			r.fault("%v", err)
			return
		}
	}
}

// wait waits for d, or until the context ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
