package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/sse"
)

const (
	endStep         = 2 * time.Second  // between closing the input, SIGTERM and SIGKILL
	maxWrite        = 10 * time.Second // until the process has read a message
	maxLoggedLine   = 4 << 10          // bytes of a line of the standard error
	maxLoggedPerRun = 1000             // lines of the standard error that are logged for one process
)

// A Command is a server that runs as a process of the gateway. All of it is the operator's.
type Command struct {
	Path      string // the program: a path, or a name in PATH
	Arguments []string
	Env       []string // NAME=value; the process gets no other variables
	Dir       string   // working directory; "" for that of the gateway
	MaxMemory int64    // bytes of data; 0 for no limit. Only on Linux
}

// start starts the process and returns a link over its standard streams: each line is a message.
func (c *Command) start(limit int64, logger *zap.Logger) (*pipe, error) {
	cmd := exec.Command(c.Path, c.Arguments...) //nolint:gosec,noctx // the operator configures the command; close ends it
	cmd.Env, cmd.Dir = append([]string{}, c.Env...), c.Dir
	inOwnGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr, cmd.WaitDelay = &lineLogger{logger: logger}, endStep
	if err := cmd.Start(); err != nil {
		if _, missing := os.Stat(c.Dir); c.Dir != "" && missing != nil { // which the error of the system blames on the program
			err = fmt.Errorf("dir: %w", missing)
		}
		return nil, &UnavailableError{fmt.Errorf("%w: starting the process: %w", errUnsent, err)}
	}
	if err := limitMemory(cmd, c.MaxMemory); err != nil {
		logger.Warn("the memory of an MCP server could not be limited", zap.Error(err))
	}
	p := newPipe()
	p.write = p.lineWriter(stdin)
	exited := make(chan struct{})
	p.end = sync.OnceFunc(func() { endProcess(cmd, stdin, exited) })
	go func() {
		defer close(exited)
		p.fail(p.run(cmd, stdout, int(limit)))
	}()
	return p, nil
}

// lineWriter returns the function that writes messages to the process. If the process does not read, the pipe is closed:
// a part of a line may have been written.
func (p *pipe) lineWriter(stdin io.Writer) func(context.Context, http.Header, []byte) error {
	writing := make(chan struct{}, 1)
	return func(ctx context.Context, _ http.Header, data []byte) error {
		select {
		case writing <- struct{}{}:
			defer func() { <-writing }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if bytes.ContainsAny(data, "\r\n") { // white space of the client, which would begin another message
			if err := (*jsontext.Value)(&data).Compact(); err != nil {
				return err
			}
		}
		defer time.AfterFunc(maxWrite, p.close).Stop()
		n, err := stdin.Write(append(data, '\n'))
		switch {
		case err != nil && n == 0:
			return &UnavailableError{fmt.Errorf("%w: writing to the process: %w", errUnsent, err)}
		case err != nil:
			return &UnavailableError{fmt.Errorf("writing to the process: %w", err)}
		}
		return nil
	}
}

// run reads what the process writes until it ends or closes its output. Then it ends what the process has started.
func (p *pipe) run(cmd *exec.Cmd, stdout io.ReadCloser, limit int) error {
	read := make(chan error, 1)
	go func() {
		read <- p.readLines(stdout, limit)
		killGroup(cmd)
	}()
	state, _ := cmd.Process.Wait() // before the output ends: a child may hold it
	killGroup(cmd)
	var err error
	select {
	case err = <-read:
	case <-time.After(endStep): // a child has left the group
		_ = stdout.Close()
		err = <-read
	}
	_ = cmd.Wait() // the goroutine of the standard error
	if state != nil {
		err = fmt.Errorf("%w (%v)", err, state)
	}
	return err
}

// readLines delivers the messages of the process until it closes its output.
func (p *pipe) readLines(stdout io.Reader, limit int) error {
	lines := sse.NewLineParser(limit, func(e sse.Event) error {
		p.deliver(e.Data)
		return nil
	})
	defer lines.Release()
	if _, err := io.Copy(lines, stdout); err != nil {
		return err
	}
	return errors.New("the process has ended")
}

// endProcess closes the input of the process, and ends the process and what it has started if that is not enough (MCP
// 2025-11-25, stdio, Shutdown).
func endProcess(cmd *exec.Cmd, stdin io.Closer, exited <-chan struct{}) {
	_ = stdin.Close()
	for _, end := range []func(*exec.Cmd){terminateGroup, killGroup} {
		select {
		case <-exited:
			return
		case <-time.After(endStep):
			end(cmd)
		}
	}
	<-exited
}

// A lineLogger logs the standard error of a process, line by line.
type lineLogger struct {
	logger *zap.Logger
	line   []byte
	logged int
}

func (l *lineLogger) Write(p []byte) (int, error) {
	for _, c := range p {
		switch {
		case c != '\n' && len(l.line) < maxLoggedLine:
			l.line = append(l.line, c)
		case c == '\n':
			l.log()
		}
	}
	return len(p), nil
}

func (l *lineLogger) log() {
	switch l.logged++; {
	case len(l.line) == 0:
	case l.logged <= maxLoggedPerRun:
		l.logger.Info("standard error of an MCP server", zap.ByteString("line", l.line))
	case l.logged == maxLoggedPerRun+1:
		l.logger.Warn("further lines of the standard error of an MCP server are not logged", zap.Int("limit", maxLoggedPerRun))
	}
	l.line = l.line[:0]
}
