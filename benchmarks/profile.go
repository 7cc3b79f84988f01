package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// profileTime is how long each profile is taken for.
const profileTime = 5 * time.Second

// profileCalls loads the gateway with one kind of tool call and writes what it
// does meanwhile to dir: cpu.pprof, and allocs.pprof for the same time, to be
// read with go tool pprof.
func profileCalls(ctx context.Context, g *gateway, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	p := callKinds(g)[0].calls[0]
	l, err := openLoad(p, connectionCounts[0].connections)
	if err != nil {
		return err
	}
	defer l.close()
	for _, profile := range []struct{ file, endpoint string }{
		{"cpu.pprof", "profile"},
		{"allocs.pprof", "allocs"},
	} {
		taken := make(chan error, 1)
		go func() {
			url := fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", g.admin, profile.endpoint, profileTime/time.Second)
			data, err := get(ctx, url)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, profile.file), data, 0o600)
			}
			taken <- err
		}()
		if _, _, err := l.run(profileTime + time.Second); err != nil {
			return err
		}
		if err := <-taken; err != nil {
			return fmt.Errorf("%s: %w", profile.file, err)
		}
	}
	return nil
}
