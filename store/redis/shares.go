package redis

import (
	"context"
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

// sharesLua has the functions of changeScript that count the records of each owner, by the rule of package share.
// They count in KiB, and estimate what a record takes. Their keys are:
//
//   - index/owners: a sorted set of the owners by what their records take
//   - index/networks: what the records of all networks take
//   - index/kept/OWNER and index/evictable/OWNER: sorted sets of keys. The score is the second of the expiry times
//     2^21, plus the size of the record, so that the size can be subtracted when the record has expired.
//
// Each call forgets up to 8 expired records of its owner.
//
//go:embed shares.lua
var sharesLua string

const (
	memoryInterval     = time.Second            // between requests for the memory that the server uses
	memoryFullInterval = 100 * time.Millisecond // while shares bind

	bindAbove, warnAbove = 75, 80 // percent, see package share
)

// memory is what the server uses of its maxmemory, in KiB: as the server said last, and what this node has
// written since. Without maxmemory, nothing is counted.
type memory struct {
	connection *connection
	warn       func() // called when the use rises above warnAbove percent

	mu          sync.Mutex
	polled      time.Time
	used, limit int64
	warned      bool
}

// counted returns the owner for changeScript, which is "" without a limit, and the memory in use.
func (m *memory) counted(ctx context.Context, owner store.Owner) (counted store.Owner, used, limit int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if age := time.Since(m.polled); age > memoryInterval || age > memoryFullInterval && m.used*100 > m.limit*bindAbove && m.limit > 0 {
		var info string
		err := m.connection.retryOnce(ctx, func(client *redis.Client) (err error) {
			info, err = client.Info(ctx, "memory").Result()
			return err
		})
		if err != nil {
			return "", 0, 0, err
		}
		m.polled, m.used, m.limit = time.Now(), memoryField(info, "used_memory")>>10, memoryField(info, "maxmemory")>>10
	}
	switch percent := m.used * 100; {
	case m.limit == 0:
		return "", 0, 0, nil
	case percent <= m.limit*bindAbove:
		m.warned = false
	case percent > m.limit*warnAbove && !m.warned:
		m.warned = true
		go m.warn()
	}
	return owner, m.used, m.limit, nil
}

// memoryField returns a field of INFO, or 0.
func memoryField(info, name string) int64 {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// grow adds what a change has written.
func (m *memory) grow(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += n
}

// Usage implements store.Measured. It is empty if the server has no maxmemory.
func (s *Store) Usage() []store.Usage {
	ctx, done := s.connection.begin(context.Background())
	defer done()
	_, used, limit, err := s.memory.counted(ctx, share.Gateway)
	if err != nil || limit == 0 {
		return nil
	}
	u := store.Usage{Name: "redis bytes", Used: used << 10, Limit: limit << 10}
	var owners []redis.Z
	err = s.connection.retryOnce(ctx, func(client *redis.Client) (err error) {
		owners, err = client.ZRevRangeWithScores(ctx, s.options.Prefix+indexPrefix+"owners", 0, 0).Result()
		return err
	})
	if err == nil && len(owners) > 0 {
		name, _ := owners[0].Member.(string)
		u.Largest, u.LargestUsed = share.Owner(name), int64(owners[0].Score)<<10
	}
	return []store.Usage{u}
}

// warn calls Options.Warn.
func (s *Store) warn() {
	for _, u := range s.Usage() {
		if s.options.Warn != nil {
			s.options.Warn(u)
		}
	}
}

// Interface guard
var _ store.Measured = (*Store)(nil)
