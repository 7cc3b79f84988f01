package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/store"
)

// The namespace of the guest modules for sinks:
//
//	agents.audit_sinks.file     files with daily rotation
//	agents.audit_sinks.webhook  signed requests to a URL
//
// In JSON, the member sinksInlineKey has the name of the module.
const (
	sinksNamespace = "agents.audit_sinks"
	sinksInlineKey = "module"
)

// Values of Config.Full.
const (
	fullRefuse = "refuse"
	fullDrop   = "drop"
)

// Limits of an archive.
const (
	defaultQueue = 100_000 // entries
	minKey       = 16      // bytes of the key of pseudonyms
	recordTime   = 10 * time.Second
)

// Config configures the archive: where the entries of the audit go.
type Config struct {
	// The sinks that get each entry: module `file` or `webhook`. At least one is required.
	SinksRaw []json.RawMessage `json:"sinks,omitempty" caddy:"namespace=agents.audit_sinks inline_key=module"`

	// How many entries of a node wait in the store while a sink cannot be reached. Default: 100000.
	Queue int `json:"queue,omitempty"`

	// What happens when as many entries wait: `refuse` refuses calls that must be recorded with 503, and logins.
	// `drop` drops entries and counts them. Default: refuse.
	Full string `json:"full,omitempty"`

	// A key of at least 16 bytes. If it is set, the archive has keyed hashes in place of the ids of users, and no
	// texts that people have written. Placeholders such as {env.NAME} are replaced. Default: none, the archive has ids.
	Pseudonyms string `json:"pseudonyms,omitempty"`
}

// Sink is a guest module of the namespace agents.audit_sinks. It keeps lines.
type Sink interface {
	// Write keeps a batch of whole lines. When it returns nil, they are durable. If it returns an error, it is called
	// again later with the same lines. The error is logged, so it must contain no secrets. The id is that of the batch.
	Write(ctx context.Context, id string, lines []byte) error

	// Target identifies where lines go, across restarts and on all nodes.
	Target() string
}

var (
	// errFull means that as many entries wait as the configuration allows.
	errFull = errors.New("the audit archive is full, because a sink cannot be reached")
	// errUnavailable means that the archive could not take an entry.
	errUnavailable = errors.New("the audit archive cannot take an entry")
)

// Archive takes the entries of one configuration. A nil Archive takes none.
type Archive struct {
	queue   *Queue
	sinks   []*delivery
	limit   int64
	drop    bool
	key     []byte // of pseudonyms; nil for none
	logger  *zap.Logger
	dropped atomic.Int64 // entries since the last one that was recorded
}

// New loads the sinks and returns the archive. It does not open the store.
func New(ctx caddy.Context, config *Config, queue *Queue, logger *zap.Logger) (*Archive, error) {
	a := &Archive{queue: queue, limit: int64(config.Queue), drop: config.Full == fullDrop, logger: logger}
	switch {
	case config.Full != "" && config.Full != fullRefuse && config.Full != fullDrop:
		return nil, fmt.Errorf("full %q: use %s or %s", config.Full, fullRefuse, fullDrop)
	case config.Queue < 0:
		return nil, fmt.Errorf("queue %d: must not be negative", config.Queue)
	case config.Queue == 0:
		a.limit = defaultQueue
	}
	if config.Pseudonyms != "" {
		if a.key = []byte(caddy.NewReplacer().ReplaceAll(config.Pseudonyms, "")); len(a.key) < minKey {
			return nil, fmt.Errorf("the key of pseudonyms has %d bytes; it needs at least %d, as in: pseudonyms {env.AUDIT_KEY}", len(a.key), minKey)
		}
	}
	if len(config.SinksRaw) == 0 {
		return nil, errors.New("audit has no sink: add one, as in: sink file /var/log/fairway/audit.jsonl")
	}
	loaded, err := ctx.LoadModule(config, "SinksRaw")
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	for _, module := range loaded.([]any) {
		sink, ok := module.(Sink)
		if !ok {
			return nil, fmt.Errorf("the module %T is not a sink", module)
		}
		d := newDelivery(sink, a)
		if seen[d.id] {
			return nil, errors.New("two sinks of audit have the same target")
		}
		seen[d.id] = true
		a.sinks = append(a.sinks, d)
	}
	return a, nil
}

// Ready returns an error that wraps errFull if calls must be refused, because their entries would not fit.
func (a *Archive) Ready(ctx context.Context) error {
	if a == nil || a.drop {
		return nil
	}
	c, err := a.queue.chain(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errUnavailable, err)
	case c.waiting() >= a.limit:
		refusals.WithLabelValues().Inc()
		return errFull
	}
	return nil
}

// Record adds entries, and sets their time unless they have one. They are durable when it returns nil. The end of the context
// does not cancel it.
func (a *Archive) Record(ctx context.Context, entries ...audit.Entry) error {
	if a == nil || len(entries) == 0 {
		return nil
	}
	ctx, cancel := store.Detach(ctx, recordTime)
	defer cancel()
	before := a.dropped.Swap(0)
	if before > 0 {
		entries = append([]audit.Entry{{Type: audit.TypeArchive, Event: "dropped", Count: before}}, entries...)
	}
	err := a.record(ctx, entries)
	if err == nil {
		return nil
	}
	a.dropped.Add(before)
	if !a.drop {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	count := len(entries)
	if before > 0 {
		count--
	}
	a.dropped.Add(int64(count))
	drops.WithLabelValues().Add(float64(count))
	return nil
}

func (a *Archive) record(ctx context.Context, entries []audit.Entry) error {
	c, err := a.queue.chain(ctx)
	if err != nil {
		return err
	}
	if a.drop && c.waiting()+int64(len(entries)) > a.limit {
		return errFull
	}
	encoded := make([][]byte, len(entries))
	for i := range entries {
		e := &entries[i]
		if e.At.IsZero() {
			e.At = time.Now()
		}
		e.At = e.At.UTC()
		if a.key != nil {
			pseudonymize(e, a.key)
		}
		if encoded[i], err = jsonv2.Marshal(e, jsontext.AllowInvalidUTF8(true)); err != nil {
			return err
		}
	}
	if err := c.append(ctx, encoded); err != nil {
		return err
	}
	waiting.WithLabelValues().Set(float64(c.waiting()))
	a.queue.wake()
	return nil
}

// Metrics of the archive.
var (
	drops    = directive.Counter("audit_dropped_total", "Entries of the audit archive that were dropped, because too many waited.")
	refusals = directive.Counter("audit_refused_total", "Calls and logins that were refused, because too many entries of the audit archive waited.")
	failures = directive.Counter("audit_sink_failures_total", "Failed deliveries to a sink of the audit archive.", "sink")
	waiting  = directive.Gauge("audit_waiting", "Entries of the audit archive that a sink has not got yet.")
)

// registerMetrics adds the metrics of the archive to the registry of a configuration.
func registerMetrics(ctx caddy.Context) error {
	for _, zero := range []*prometheus.CounterVec{drops, refusals} {
		zero.WithLabelValues() // exported before the first one
	}
	return directive.RegisterMetrics(ctx.GetMetricsRegistry(), drops, refusals, failures, waiting)
}
