package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/fairwayhq/fairway/store"
)

const (
	requestTimeout   = 2 * time.Second // to connect, and for each response
	operationTimeout = 5 * time.Second // for all commands of one call of the store
)

// connection sends commands to the server. It limits their duration, repeats commands that are safe to
// repeat, and maps errors to those of package store.
type connection struct {
	client  *redis.Client
	name    string        // address of the server in error messages, without password
	closing chan struct{} // closed when the store closes
}

func newConnection(settings *redis.Options) *connection {
	return &connection{
		client:  redis.NewClient(settings),
		name:    settings.Network + "://" + settings.Addr,
		closing: make(chan struct{}),
	}
}

// CheckAddress validates an address. Its errors do not contain secrets.
func CheckAddress(address string) error {
	_, err := parseAddress(address)
	return err
}

// parseAddress parses the address. Errors of the libraries may contain the password, so
// they are not wrapped.
func parseAddress(address string) (*redis.Options, error) {
	const shape = "use redis://host:6379/0, rediss://user:password@host:6379 or unix:///path/to/redis.sock, " +
		"and percent-encode special characters in the password"
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of Redis is not a URL: " + shape)
	}
	settings, err := redis.ParseURL(address)
	if err != nil || settings.Addr == "" {
		return nil, fmt.Errorf("the address of Redis, a URL with scheme %q, is not valid: %s", u.Scheme, shape)
	}
	settings.ContextTimeoutEnabled = true
	settings.MaxRetries = -1 // only this package knows which commands are safe to repeat
	settings.DialerRetries = 1
	settings.DisableIdentity = true
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	for _, timeout := range []*time.Duration{&settings.DialTimeout, &settings.ReadTimeout, &settings.WriteTimeout, &settings.PoolTimeout} {
		if *timeout <= 0 {
			*timeout = requestTimeout
		}
	}
	return settings, nil
}

// begin sets the timeout of a call.
func (c *connection) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, operationTimeout)
}

// retryOnce runs a command that can safely be repeated. If the connection is lost, it runs the
// command once more.
func (c *connection) retryOnce(ctx context.Context, send func() error) error {
	err := send()
	if connectionLost(err) && ctx.Err() == nil {
		err = send()
	}
	return c.explain(ctx, err)
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
func (c *connection) timed(ctx context.Context, request func(context.Context) error) error {
	within, done := c.begin(ctx)
	defer done()
	return c.retryOnce(within, func() error { return request(within) })
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
