// Package notify tells reviewers about pending reviews. It has the namespace oagent.notifiers of guest
// modules, and the module webhook.
//
// The reviews are in the store, in the lists of their reviewers. A Service scans these lists, and claims
// each review in the store before it sends a notice. Therefore only one node sends the notice, and if the
// process ends before, the notice is sent after the restart.
package notify

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
)

// Limits of notices.
const (
	Timeout = time.Minute // the maximum of Notifier.MaxDuration

	maxConcurrent = 8                // notices of one Notifier at a time
	maxTries      = 20               // of one notice
	maxPause      = 10 * time.Minute // between two tries; the first pause is ReviewPace.RetryPause, and doubles
	leaseMargin   = 10 * time.Second // time to record the result, in addition to Notifier.MaxDuration
	stopTime      = 5 * time.Second  // for the notices that are being sent when the Service stops
	maxError      = 300              // bytes of an error in the log
	keyPrefix     = "notice/"        // of the claims in the store
)

// Notifier is a guest module of the namespace oagent.notifiers. It sends notices.
type Notifier interface {
	// Notify sends a notice. If it returns an error, it is called again later. The error is logged, so it
	// must contain no secrets. If the process ends before the result is recorded, the same notice is sent
	// again, with the same ID.
	Notify(ctx context.Context, notice *Notice) error

	// MaxDuration is how long Notify may take, at most Timeout. If a node dies while it sends a notice,
	// another one sends it about this time later.
	MaxDuration() time.Duration

	// Target identifies where notices go, across restarts and on all nodes. A review is sent once to
	// each target.
	Target() string
}

// Notice reports that a review is pending. It contains neither inputs nor outputs of the call.
type Notice struct {
	ID        string    `json:"id"`   // of the review
	Type      string    `json:"type"` // always review.pending
	Reviewer  string    `json:"reviewer"`
	Agent     string    `json:"agent"`
	User      string    `json:"user,omitempty"` // whose call needs the review
	Name      string    `json:"name"`           // of the tool
	Side      string    `json:"side"`           // input or output
	Rule      string    `json:"rule"`
	AskedAt   time.Time `json:"asked_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Location  string    `json:"location,omitempty"` // path of the review on the site
	Link      string    `json:"link,omitempty"`     // for a person; empty unless the Notifier has one
}

// Options configures a Service.
type Options struct {
	Notifiers []Notifier
	Reviews   string // path of the endpoint for reviewers; "" for none
	Set       func() *agentset.Set
	Guard     func(context.Context) (*oagent.Guard, error)
	Store     func(context.Context) (store.Store, error)
	Skip      func(agent string) bool // reports whether reviews of an agent are sent to its program
	Logger    *zap.Logger
}

// Service sends a notice about each pending review of a site's agents to each Notifier.
type Service struct {
	options Options
	pace    agents.ReviewPace
	wakeups chan struct{}
	slots   []chan struct{}    // by Notifier, so that a slow one does not delay others
	cancel  context.CancelFunc // ends the scans
	sending context.Context    // of the notices
	abort   context.CancelFunc // cancels the notices
	all     sync.WaitGroup

	mu    sync.Mutex
	known map[sent]time.Time // time at which a notice is due; zero while it is being sent, and afterwards
}

// sent identifies a notice for a Notifier.
type sent struct {
	notifier int
	review   string
}

// New returns a Service that is not started. It returns nil if there are no Notifiers.
func New(options Options) *Service {
	if len(options.Notifiers) == 0 {
		return nil
	}
	s := &Service{options: options, wakeups: make(chan struct{}, 1), known: make(map[sent]time.Time)}
	for range options.Notifiers {
		s.slots = append(s.slots, make(chan struct{}, maxConcurrent))
	}
	return s
}

// Start begins to send notices.
func (s *Service) Start(pace agents.ReviewPace) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.pace, s.cancel = pace, cancel
	s.sending, s.abort = context.WithCancel(context.Background())
	s.all.Go(func() { s.run(ctx) })
}

// Stop ends the Service. It waits for the notices that are being sent, so that a notice that the endpoint
// has accepted is not sent again. After stopTime it cancels them, and the next configuration sends them again.
func (s *Service) Stop() {
	if s == nil || s.cancel == nil {
		return
	}
	s.cancel()
	timer := time.AfterFunc(stopTime, s.abort)
	s.all.Wait()
	timer.Stop()
	s.abort()
}

// Wake signals that there is a new review.
func (s *Service) Wake() {
	if s == nil {
		return
	}
	select {
	case s.wakeups <- struct{}{}:
	default: // already signalled
	}
}

func (s *Service) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wakeups:
		case <-timer.C:
		}
		next, err := s.round(ctx)
		if err != nil && ctx.Err() == nil {
			s.options.Logger.Error("reading the pending reviews failed; no notices are sent", zap.Error(err))
		}
		timer.Reset(next)
	}
}

// round sends the notices that are due. It returns the delay until the next round.
func (s *Service) round(ctx context.Context) (time.Duration, error) {
	next := time.Now().Add(s.pace.ScanInterval)
	guard, err := s.options.Guard(ctx)
	if err != nil {
		return s.pace.ScanInterval, err
	}
	set := s.options.Set()
	open := make(map[string]bool)
	for reviewer := range s.reviewers(set) {
		reviews, err := guard.Reviews.List(ctx, reviewer)
		if err != nil {
			return s.pace.ScanInterval, err
		}
		for i := range reviews {
			if set.Agents[reviews[i].Agent] == nil {
				continue // the review belongs to another site
			}
			open[reviews[i].ID] = true
			for n := range s.options.Notifiers {
				if at := s.begin(n, &reviews[i]); !at.IsZero() && at.Before(next) {
					next = at
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for notice := range s.known {
		if !open[notice.review] {
			delete(s.known, notice)
		}
	}
	return max(time.Until(next), time.Millisecond), nil
}

// reviewers returns the reviewers that the documents name, in the form of review.Queue.List.
func (s *Service) reviewers(set *agentset.Set) map[string]bool {
	all := make(map[string]bool)
	for _, a := range set.Documents() {
		for i := range a.Capabilities {
			for _, reviewer := range a.Capabilities[i].Reviewers() {
				name := strings.TrimPrefix(reviewer, oagent.Scheme)
				switch isAgent := name != reviewer || set.Agents[name] != nil; {
				case isAgent && !s.options.Skip(name):
					all[oagent.Scheme+name] = true
				case !isAgent:
					all[reviewer] = true
				}
			}
		}
	}
	return all
}

// begin sends a notice in the background if it is due. Otherwise it returns the time at which the notice
// is due; zero for never.
func (s *Service) begin(n int, r *review.Summary) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	notice := sent{n, r.ID}
	if at, known := s.known[notice]; known && (at.IsZero() || time.Now().Before(at)) {
		return at
	}
	select {
	case s.slots[n] <- struct{}{}:
	default:
		return time.Time{} // the end of a running notice wakes the Service
	}
	s.known[notice] = time.Time{}
	of := *r
	s.all.Go(func() {
		again := s.send(s.sending, n, &of)
		s.mu.Lock()
		s.known[notice] = again
		s.mu.Unlock()
		<-s.slots[n]
		s.Wake()
	})
	return time.Time{}
}

// send sends one notice, unless another node is sending it or has sent it. It returns the time of the next
// check; zero for never.
func (s *Service) send(ctx context.Context, n int, r *review.Summary) (again time.Time) {
	c, err := s.claim(ctx, n, r)
	switch {
	case ctx.Err() != nil:
		return time.Now()
	case err != nil:
		s.options.Logger.Error("claiming a notice about a review failed", zap.String("review", r.ID), zap.Error(err))
		return time.Now().Add(s.pace.OtherNodeDelay)
	case c.Done:
		return time.Time{}
	case !c.mine:
		return time.UnixMilli(c.Until)
	}
	within, cancel := context.WithTimeout(ctx, s.maxDuration(n))
	defer cancel()
	err = s.options.Notifiers[n].Notify(within, s.notice(r))
	switch {
	case err == nil:
		c.Done = true
	case ctx.Err() != nil:
		c.Tries, c.Until = c.Tries-1, 0 // the next configuration can send it at once
	default:
		pause := min(s.pace.RetryPause<<(c.Tries-1), maxPause)
		c.Until, c.Done = time.Now().Add(pause).UnixMilli(), c.Tries >= maxTries
		s.options.Logger.Warn("sending a notice about a review failed", zap.String("review", r.ID), zap.Int("try", c.Tries),
			zap.Bool("last", c.Done), zap.String("error", text.Cut(err.Error(), maxError)))
	}
	if err := s.end(ctx, c); err != nil {
		s.options.Logger.Error("recording a notice about a review failed; it may be sent again", zap.String("review", r.ID), zap.Error(err))
	}
	if c.Done {
		return time.Time{}
	}
	return time.UnixMilli(c.Until)
}

// maxDuration returns how long a Notifier has for one notice.
func (s *Service) maxDuration(n int) time.Duration {
	return min(s.options.Notifiers[n].MaxDuration(), Timeout)
}

// notice returns the notice about a review.
func (s *Service) notice(r *review.Summary) *Notice {
	n := &Notice{
		ID: r.ID, Type: "review.pending", Reviewer: r.Reviewer, Agent: r.Agent, User: r.User.ID, Name: r.Name, Side: string(r.Side), Rule: r.Rule,
		AskedAt: r.AskedAt, ExpiresAt: r.ExpiresAt,
	}
	if s.options.Reviews != "" {
		n.Location = s.options.Reviews + "/" + r.ID
	}
	return n
}

// claim is the state of a notice in the store.
type claim struct {
	Tries int   `json:"tries"`
	Until int64 `json:"until,omitempty"` // milliseconds since 1970; until then no other node sends the notice
	Done  bool  `json:"done,omitempty"`  // it was sent, or it has failed too often

	mine bool // this node may send it
	try  int  // number of the try that was claimed
	key  string
	ttl  time.Duration
}

// claim claims a notice, so that no other node sends it.
func (s *Service) claim(ctx context.Context, n int, r *review.Summary) (*claim, error) {
	st, err := s.options.Store(ctx)
	if err != nil {
		return nil, err
	}
	target := sha256.Sum256([]byte(s.options.Notifiers[n].Target()))
	c := &claim{
		key: keyPrefix + base64.RawURLEncoding.EncodeToString(target[:12]) + "/" + r.ID,
		ttl: min(max(time.Until(r.ExpiresAt), 0)+time.Hour, store.MaxTTL),
	}
	ctx, cancel := engagement.Detach(ctx) // not canceled with ctx: a stored claim that is not returned could not be released
	defer cancel()
	err = st.Update(ctx, c.key, func(old store.Record) (store.Change, error) {
		c.Tries, c.Until, c.Done, c.mine = 0, 0, false, false
		if len(old.Value) > 0 {
			if err := json.Unmarshal(old.Value, c); err != nil {
				return store.Change{}, fmt.Errorf("the record %s is unreadable: %w", c.key, err)
			}
		}
		if now := time.Now(); !c.Done && c.Until <= now.UnixMilli() {
			c.Tries, c.Until, c.mine = c.Tries+1, now.Add(s.maxDuration(n)+leaseMargin).UnixMilli(), true
			c.try = c.Tries
			return c.change()
		}
		return store.Change{}, errTaken
	})
	if errors.Is(err, errTaken) {
		err = nil
	}
	return c, err
}

// errTaken means that another node sends the notice, or that it was sent.
var errTaken = errors.New("another node has claimed the notice")

// end records the result of a claim, unless another node has claimed the notice since.
func (s *Service) end(ctx context.Context, c *claim) error {
	st, err := s.options.Store(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := engagement.Detach(ctx)
	defer cancel()
	err = st.Update(ctx, c.key, func(old store.Record) (store.Change, error) {
		now := new(claim)
		if err := json.Unmarshal(old.Value, now); err != nil || now.Tries != c.try {
			return store.Change{}, errTaken // the claim has expired
		}
		return c.change()
	})
	if errors.Is(err, errTaken) {
		return nil
	}
	return err
}

// change returns the change that stores the claim.
func (c *claim) change() (store.Change, error) {
	value, err := json.Marshal(c)
	return store.Change{Value: value, TTL: c.ttl}, err
}
