package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fairwayhq/fairway/store"
)

const (
	connectTimeout   = 2 * time.Second  // to open a connection, if the URL does not set connect_timeout
	operationTimeout = 5 * time.Second  // for all statements of one call of the store
	idleTimeout      = 10 * time.Second // after which the server ends a transaction of a node that hangs
	maxConnections   = 16               // of one node, if the URL does not set pool_max_conns
	severityError    = "ERROR"          // of an error that ends the statement. Others end the connection.
)

// Codes of errors, see "PostgreSQL Error Codes" in the manual of Postgres.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeDiskFull      = "53100"
	codeCanceled      = "57014" // also by statement_timeout
)

// schemaName matches the names of schemas that need no quotes. A channel of NOTIFY has the same name.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// connection sends statements to the server. It limits their duration, repeats statements that are safe to
// repeat, and maps errors to those of package store.
type connection struct {
	pool    *pgxpool.Pool
	name    string        // address of the server in error messages, without user and password
	closing chan struct{} // closed when the store closes
}

// Check validates an address and the name of a schema. Its errors do not contain secrets.
func Check(address, schema string) error {
	_, err := parseAddress(address, schema)
	return err
}

// parseAddress parses the address. Errors of the libraries may contain the password, so they are not wrapped.
func parseAddress(address, schema string) (*pgxpool.Config, error) {
	const shape = "use postgres://user:password@host:5432/database?sslmode=verify-full, and percent-encode special characters in the password" //nolint:gosec // an example
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of Postgres is not a URL: " + shape)
	}
	settings, err := pgxpool.ParseConfig(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("the address of Postgres, a URL with scheme %q, is not valid: %s", u.Scheme, shape)
	}
	if u.Hostname() == "" && !u.Query().Has("host") && !u.Query().Has("service") && os.Getenv("PGHOST")+os.Getenv("PGSERVICE") == "" { // the library would connect to this machine
		return nil, errors.New("the address of Postgres has no host: " + shape + "; for a socket of this machine write postgres:///database?host=/run/postgresql")
	}
	if !schemaName.MatchString(schema) || strings.HasPrefix(schema, "pg_") {
		return nil, fmt.Errorf("the schema %q is not valid: use up to 63 of a-z, 0-9 and _, not starting with a digit or pg_", schema)
	}
	if !u.Query().Has("pool_max_conns") {
		settings.MaxConns = maxConnections
	}
	settings.ConnConfig.ConnectTimeout = cmp.Or(settings.ConnConfig.ConnectTimeout, connectTimeout)
	parameters := settings.ConnConfig.RuntimeParams
	parameters["application_name"] = cmp.Or(parameters["application_name"], "fairway")
	parameters["search_path"] = schema
	parameters["default_transaction_isolation"] = "read committed"
	parameters["statement_timeout"] = milliseconds(operationTimeout)
	parameters["idle_in_transaction_session_timeout"] = milliseconds(idleTimeout)
	parameters["jit"] = "off" // compiling takes longer than these statements
	return settings, nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// newConnection returns the connection without opening one.
func newConnection(settings *pgxpool.Config) (*connection, error) {
	pool, err := pgxpool.NewWithConfig(context.Background(), settings)
	if err != nil {
		return nil, err
	}
	name := net.JoinHostPort(settings.ConnConfig.Host, strconv.Itoa(int(settings.ConnConfig.Port)))
	return &connection{pool: pool, name: name, closing: make(chan struct{})}, nil
}

// begin sets the timeout of a call.
func (c *connection) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, operationTimeout)
}

// timed runs a request that can safely be repeated, with a timeout. If the connection is lost, it runs the
// request once more on a new connection.
func (c *connection) timed(ctx context.Context, request func(context.Context) error) error {
	ctx, done := c.begin(ctx)
	defer done()
	err := request(ctx)
	if connectionLost(err) && ctx.Err() == nil {
		c.pool.Reset()
		err = request(ctx)
	}
	return c.explain(ctx, err)
}

// exec runs a statement that can safely be repeated: a job may be in a queue twice.
func (c *connection) exec(ctx context.Context, statement string, arguments ...any) error {
	return c.timed(ctx, func(ctx context.Context) error {
		_, err := c.pool.Exec(ctx, statement, arguments...)
		return err
	})
}

// rejected returns the error of the server if it has ended the statement and nothing else: then nothing was written.
func rejected(err error) (reply *pgconn.PgError, ok bool) {
	ok = errors.As(err, &reply) && cmp.Or(reply.SeverityUnlocalized, reply.Severity) == severityError
	return reply, ok
}

// connectionLost reports whether an open connection ended before the response. A timeout does not count, since
// an immediate retry would not help.
func connectionLost(err error) bool {
	var connect *pgconn.ConnectError
	if err == nil || errors.Is(err, pgx.ErrNoRows) || errors.As(err, &connect) || pgconn.Timeout(err) {
		return false
	}
	_, ok := rejected(err)
	return !ok
}

// explain adds the address of the server to an error and maps it to an error of Store.
func (c *connection) explain(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	select {
	case <-c.closing:
		return store.ErrClosed
	default:
	}
	var connect *pgconn.ConnectError
	reply, _ := rejected(err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case reply != nil && reply.Code == codeDiskFull:
		return fmt.Errorf("%w: postgres at %s: %w", store.ErrFull, c.name, err)
	case errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err), reply != nil && reply.Code == codeCanceled:
		return fmt.Errorf("postgres at %s did not respond in time: %w", c.name, err)
	case errors.As(err, &connect): // one line for each attempt
		return fmt.Errorf("postgres at %s: %s", c.name, strings.Join(strings.Fields(err.Error()), " "))
	}
	return fmt.Errorf("postgres at %s: %w", c.name, err)
}
