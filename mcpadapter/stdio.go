package mcpadapter

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
)

// ServeStdio serves one client over in and out, with one JSON-RPC message per line (MCP, Transports,
// stdio). It returns when in ends, writing to out fails, or ctx ends. Requests in progress when in
// ends are completed. It returns nil after a clean end.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, site Site) error {
	lines := protocol.NewLineWriter(out)
	c := s.newConnection(ctx, &site, share.Gateway, lines)
	defer c.stop()
	ctx, lines.Broken = c.ctx, c.stop
	leave, f := s.streams.Join(c.watcher, c.owner)
	if f != nil {
		return errors.New(f.Message)
	}
	defer leave()

	var watching sync.WaitGroup
	watching.Go(func() {
		watch := &session.Watch{Host: &s.host, Watcher: c.watcher, Out: lines, State: &c.live, Stamp: s.newPolling(&site, c.owner).stamp}
		watch.Run(ctx)
	})
	err := s.readLines(ctx, in, c)
	close(c.ended)
	c.wait()
	watching.Wait()
	return errors.Join(err, lines.Err())
}

// readLines passes each line to the connection. A read cannot be interrupted, so it runs in a
// separate goroutine, which ends after its next line or with the process.
func (s *Server) readLines(ctx context.Context, in io.Reader, c *connection) error {
	lines := make(chan []byte)
	ended := make(chan error, 1)
	go func() {
		reader := bufio.NewReaderSize(in, 64<<10)
		for {
			line, err := s.readLine(reader)
			if len(line) > 0 {
				select {
				case lines <- line:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	for {
		select {
		case line := <-lines:
			c.receive(ctx, line, func() {})
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// readLine reads a line without its line ending. It truncates a line that exceeds MaxBody to
// MaxBody+1 bytes, so that serve rejects it.
func (s *Server) readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	limit := s.options.MaxBody
	for {
		part, err := r.ReadSlice('\n')
		if room := limit + 1 - int64(len(line)); int64(len(part)) > room {
			part = part[:max(room, 0)]
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), err
		}
	}
}
