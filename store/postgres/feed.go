package postgres

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fairwayhq/fairway/store"
)

const (
	reconnectInterval = time.Second     // between attempts to listen
	pingInterval      = 5 * time.Second // time without names after which the connection is checked
	maxPending        = 10_000          // names to send; if there are more, all waiters of other nodes wake
	everything        = "*"             // wakes all waiters. Other payloads are names in hexadecimal.
)

// feed wakes Wait and Take calls. The Store and its queues report changes by this process. Changes by other nodes
// arrive by LISTEN.
//
// The names of changed records and queues are sent after the commit, many at a time: with NOTIFY in their own
// transactions, changes could only commit one after the other. If a node ends before it has sent a name, others find
// the change with their next poll.
type feed struct {
	connection *connection
	settings   *pgx.ConnConfig
	channel    string
	waiters    store.Waiters
	due        chan struct{} // receives when names are pending

	mu      sync.Mutex
	pending map[string]bool // payloads
}

// changed wakes the calls that wait for a record or a queue, on all nodes.
func (f *feed) changed(name string) {
	f.waiters.Wake(name)
	f.send(hex.EncodeToString([]byte(name)))
}

func (f *feed) send(payload string) {
	f.mu.Lock()
	if len(f.pending) >= maxPending {
		f.pending = map[string]bool{everything: true}
	}
	f.pending[payload] = true
	f.mu.Unlock()
	select {
	case f.due <- struct{}{}:
	default:
	}
}

// notify sends pending names until the context ends, and then those that are left: a node that stops has just passed
// its work on to others.
func (f *feed) notify(ctx context.Context) {
	for open := true; open; {
		select {
		case <-f.due:
		case <-ctx.Done():
			open = false
		}
		f.mu.Lock()
		payloads := slices.Collect(maps.Keys(f.pending))
		clear(f.pending)
		f.mu.Unlock()
		// Nothing is written, so there is nothing to wait for.
		const statement = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) payload WHERE set_config('synchronous_commit', 'off', true) = 'off'"
		if err := f.connection.exec(context.WithoutCancel(ctx), statement, f.channel, payloads); err != nil && pause(ctx, reconnectInterval) {
			f.send(everything)
		}
	}
}

// listen receives names until the context ends. After each interruption it wakes all calls: they may have missed changes.
func (f *feed) listen(ctx context.Context) {
	for {
		_ = f.receive(ctx) // calls that wait also poll, and report errors
		if !pause(ctx, reconnectInterval) {
			return
		}
	}
}

// receive listens until the connection is lost, or the server does not respond on it.
func (f *feed) receive(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, f.settings)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := f.exec(ctx, conn, "LISTEN "+f.channel); err != nil {
		return err
	}
	f.waiters.WakeAll()
	for {
		within, done := context.WithTimeout(ctx, pingInterval)
		notification, err := conn.WaitForNotification(within)
		done()
		if pgconn.Timeout(err) && ctx.Err() == nil {
			if err := f.exec(ctx, conn, "SELECT"); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if name, err := hex.DecodeString(notification.Payload); err == nil {
			f.waiters.Wake(string(name))
		} else { // everything
			f.waiters.WakeAll()
		}
	}
}

// exec runs a statement on the connection that listens, with a timeout.
func (f *feed) exec(ctx context.Context, conn *pgx.Conn, statement string) error {
	ctx, done := f.connection.begin(ctx)
	defer done()
	_, err := conn.Exec(ctx, statement)
	return err
}

// pause waits, and returns false if the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
