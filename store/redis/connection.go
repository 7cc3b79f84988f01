package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/store"
)

const (
	requestTimeout   = 2 * time.Second // to connect, and for each response
	operationTimeout = 5 * time.Second // for all commands of one call of the store

	refusedTimeout = time.Second           // how long a refused command is repeated
	refusedPause   = 50 * time.Millisecond // between two attempts

	stateInterval = 5 * time.Second // between two looks at which servers of a cluster have which slots
)

// connection sends commands to the server that has the records. It limits their duration, repeats commands that
// are safe to repeat, and maps errors to those of package store.
type connection struct {
	client  redis.UniversalClient // of one server, of the master that the sentinels name, or of a cluster
	slot    string                // a key in the slot of all records of a cluster
	name    string                // address of the server in error messages, without password
	closing chan struct{}         // closed when the store closes
}

// server returns the client of the server that has the records. In a cluster it is the master of their slot.
// ClusterClient itself is not used for commands: it repeats them without knowing which are safe to repeat.
func (c *connection) server(ctx context.Context) (*redis.Client, error) {
	if client, ok := c.client.(*redis.Client); ok {
		return client, nil
	}
	return c.client.(*redis.ClusterClient).MasterForKey(ctx, c.slot)
}

// begin sets the timeout of a call.
func (c *connection) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, operationTimeout)
}

// run sends a command. If the server has refused it without running it, because another server has the records
// now, run repeats it until refusedTimeout has passed.
func (c *connection) run(ctx context.Context, send func(*redis.Client) error) error {
	start := time.Now()
	for {
		client, err := c.server(ctx)
		if err == nil {
			err = send(client)
		}
		if cluster, ok := c.client.(*redis.ClusterClient); ok && (connectionLost(err) || refused(err)) {
			cluster.ReloadState(ctx) // in the background
		}
		if !refused(err) || time.Since(start) > refusedTimeout || c.pause(ctx, refusedPause) != nil {
			return err
		}
	}
}

// retryOnce is run for a command that can safely be repeated. If the connection is lost, it sends the command once
// more.
func (c *connection) retryOnce(ctx context.Context, send func(*redis.Client) error) error {
	err := c.run(ctx, send)
	if connectionLost(err) && ctx.Err() == nil {
		err = c.run(ctx, send)
	}
	return c.explain(ctx, err)
}

// refused reports whether the server has refused a command because it is not, or no longer, the one that has the
// records. The command has not run.
func refused(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	switch code {
	case "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY":
		return true
	}
	return false
}

// connectionLost reports whether the connection ended before the response. A timeout does not count,
// since an immediate retry would not help.
func connectionLost(err error) bool {
	if err == nil || errors.Is(err, redis.ErrClosed) {
		return false
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return false
	}
	var reply redis.Error
	return !errors.As(err, &reply)
}

// timed makes a request with a timeout, and repeats it once if the connection was lost.
func (c *connection) timed(ctx context.Context, request func(context.Context, *redis.Client) error) error {
	within, done := c.begin(ctx)
	defer done()
	return c.retryOnce(within, func(client *redis.Client) error { return request(within, client) })
}

// pause waits before the next attempt.
func (c *connection) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return c.explain(ctx, ctx.Err())
	case <-c.closing:
		return store.ErrClosed
	}
}

// explain adds the address of the server to an error and maps it to an error of Store.
func (c *connection) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-c.closing:
		return store.ErrClosed
	default:
	}
	var network net.Error
	switch {
	case errors.Is(err, redis.ErrClosed):
		return store.ErrClosed
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case strings.HasPrefix(err.Error(), "OOM "):
		return fmt.Errorf("%w: redis at %s: %w", store.ErrFull, c.name, err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("redis at %s did not respond in time: %w", c.name, err)
	}
	return fmt.Errorf("redis at %s: %w", c.name, err)
}

// LogTo sets the function that gets the log messages of the client library, for all stores of the process. Without
// it, the library writes them to stderr.
func LogTo(log func(message string)) { redis.SetLogger(clientLog(log)) }

// clientLog implements the logger of the client library.
type clientLog func(message string)

// Printf implements the logger of the client library.
func (l clientLog) Printf(_ context.Context, format string, values ...any) {
	l(fmt.Sprintf(format, values...))
}
