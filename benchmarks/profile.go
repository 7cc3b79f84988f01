package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// profileTime is the duration of each profile.
const profileTime = 5 * time.Second

// profileCalls sends one kind of call after the other and writes profiles to dir:
// tool-call.cpu.pprof and tool-call.allocs.pprof, and likewise for a guarded call, for a
// call with a large response, for a call recorded by its call_id, and for a guarded call
// with an audit archive. Read them with go tool pprof.
func profileCalls(ctx context.Context, g *gateway, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, kind := range []struct {
		name string
		call probe
	}{
		{"tool-call", callKinds(g)[0].calls[0]},
		{"guarded", guardedCall(g)},
		{"large", largeCall(g, "2025-11-25")},
		{"recorded", recordedCall(g, "create_item", newItem)},
	} {
		if err := profileCall(ctx, g, kind.call, filepath.Join(dir, kind.name)); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	archived, err := g.startNode(ctx, "archived", withArchive)
	if err != nil {
		return err
	}
	defer archived.stop()
	return profileCall(ctx, archived, guardedCall(archived), filepath.Join(dir, "archived"))
}

// profileCall writes the profiles of one kind of call to files with the prefix path.
func profileCall(ctx context.Context, g *gateway, p probe, path string) error {
	l, err := openLoad(p, connectionCounts[0].connections)
	if err != nil {
		return err
	}
	defer l.close()
	for _, profile := range []struct{ file, endpoint string }{
		{".cpu.pprof", "profile"},
		{".allocs.pprof", "allocs"},
	} {
		taken := make(chan error, 1)
		go func() {
			url := fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", g.admin, profile.endpoint, profileTime/time.Second)
			data, err := get(ctx, url)
			if err == nil {
				err = os.WriteFile(path+profile.file, data, 0o600)
			}
			taken <- err
		}()
		if _, _, err := l.run(profileTime + time.Second); err != nil {
			return err
		}
		if err := <-taken; err != nil {
			return err
		}
	}
	return nil
}
