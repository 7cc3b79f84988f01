// Package notify sends notices about pending reviews, and about the runs of hosted agents. It has the namespace
// oagent.notifiers of guest modules, and the modules webhook, slack and smtp.
//
// The reviews are in the store, in the lists of their reviewers, and the notices about runs are in an Outbox. A Service
// scans these lists, and claims each notice in the store before it sends the notice. Therefore only one node sends it, and if
// the process ends before, the notice is sent after the restart.
package notify

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/caddymodule/oagent/reviewers"
	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/review"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// Limits of notices.
const (
	timeout = time.Minute // the maximum of Notifier.MaxDuration

	maxConcurrent = 8                // notices of one Notifier at a time
	maxTries      = 20               // of one notice
	maxPause      = 10 * time.Minute // between two tries; the first pause is ReviewPace.RetryPause, and doubles
	leaseMargin   = 10 * time.Second // time to record the result, in addition to Notifier.MaxDuration
	stopTime      = 5 * time.Second  // for the notices that are being sent when the Service stops
	maxError      = 300              // bytes of an error in the log
	keyPrefix     = "notice/"        // of the claims in the store
	doneTTL       = time.Hour        // of a claim, after its notice has expired or was removed
)

// Notifier is a guest module of the namespace oagent.notifiers. It sends notices.
type Notifier interface {
	// Notify sends a notice. If it returns an error, it is called again later. The error is logged, so it
	// must contain no secrets. If the process ends before the result is recorded, the same notice is sent
	// again, with the same Key.
	Notify(ctx context.Context, notice *Notice) error

	// MaxDuration is how long Notify may take, at most Timeout. If a node dies while it sends a notice,
	// another one sends it about this time later.
	MaxDuration() time.Duration

	// Target identifies where notices go, across restarts and on all nodes. A notice is sent once to
	// each target.
	Target() string
}

// A Selector is a Notifier that says which notices it sends. Other Notifiers get those about reviews.
type selector interface {
	Wants(kind string) bool // kind is a Notice.Type
}

// Types of notices about reviews. Those about runs are in runTypes.
const (
	typePending   = "review.pending"
	typeEscalated = "review.escalated" // more people may decide now
)

// Notice reports that a review is pending, or a change of a run. It contains neither inputs nor outputs of calls, and no texts
// of conversations.
type Notice struct {
	ID       string `json:"id"` // of the review; of the notice, if it is about a run
	Type     string `json:"type"`
	Agent    string `json:"agent"`
	User     string `json:"user,omitempty"`     // whose call needs the review, or whose run it is
	Location string `json:"location,omitempty"` // path of the review or of the run on the site
	Link     string `json:"link,omitempty"`     // for a person; empty unless the Notifier has one

	// Of a notice about a review:

	Reviewer  string    `json:"reviewer,omitempty"`
	Name      string    `json:"name,omitempty"` // of the tool
	Side      string    `json:"side,omitempty"` // input or output
	Rule      string    `json:"rule,omitempty"`
	People    []string  `json:"people,omitempty"` // who may decide since this notice: ids of users and group:NAME
	Step      int       `json:"step,omitempty"`   // number of earlier notices about the review, each to other people
	AskedAt   time.Time `json:"asked_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`

	// Of a notice about a run:

	At  time.Time `json:"at,omitzero"`
	Run *Run      `json:"run,omitempty"`
}

// Key identifies the notice. It is the id of the review for the first notice about it.
func (n *Notice) Key() string {
	if n.Step == 0 {
		return n.ID
	}
	return n.ID + "-" + strconv.Itoa(n.Step)
}

// expiry is when the notice is no longer sent.
func (n *Notice) expiry() time.Time {
	if n.Run != nil {
		return n.At.Add(runTTL)
	}
	return n.ExpiresAt
}

// Options configures a Service.
type Options struct {
	Notifiers []Notifier
	Reviews   string // path of the endpoint for reviewers; "" for none
	Outbox    Outbox // nil if no agents are hosted
	Set       func() *agentset.Set
	Guard     func(context.Context) (*oagent.Guard, error)
	Store     func(context.Context) (store.Store, error)
	Due       func(*review.Summary, time.Time) []reviewers.People // see reviewers.Service.Due
	Skip      func(agent string) bool                             // reports whether reviews of an agent are sent to its program
	Logger    *zap.Logger
}

// Service sends the notices about the pending reviews and the runs of a site's agents to each Notifier that wants them.
type Service struct {
	options    Options
	pace       review.Pace
	dispatcher *lease.Dispatcher // its lanes are the Notifiers, so that a slow one does not delay others
}

// New returns a Service that is not started. It returns nil if there are no Notifiers.
func New(options Options) *Service {
	if len(options.Notifiers) == 0 {
		return nil
	}
	return &Service{options: options}
}

// Start begins to send notices.
func (s *Service) Start(pace review.Pace) {
	if s == nil {
		return
	}
	s.pace = pace
	s.dispatcher = &lease.Dispatcher{Scan: s.scan, Interval: pace.ScanInterval, PerLane: maxConcurrent}
	s.dispatcher.Start()
}

// Stop ends the Service. It waits for the notices that are being sent, so that a notice that the endpoint
// has accepted is not sent again. After stopTime it cancels them, and the next configuration sends them again.
func (s *Service) Stop() {
	if s != nil && s.dispatcher != nil {
		s.dispatcher.Stop(stopTime)
	}
}

// Wake signals that there is a new review.
func (s *Service) Wake() {
	if s != nil && s.dispatcher != nil {
		s.dispatcher.Wake()
	}
}

// Wants reports whether a Notifier sends notices of one of these types. A nil Service has none.
func (s *Service) Wants(kinds ...string) bool { return s != nil && s.wanted(kinds...) != nil }

// wants reports whether a Notifier sends notices of that type.
func (s *Service) wants(n int, kind string) bool {
	if selects, ok := s.options.Notifiers[n].(selector); ok {
		return selects.Wants(kind)
	}
	return kind == typePending || kind == typeEscalated
}

// wanted returns the numbers of the Notifiers that send notices of one of these types.
func (s *Service) wanted(kinds ...string) (all []int) {
	for n := range s.options.Notifiers {
		if slices.ContainsFunc(kinds, func(kind string) bool { return s.wants(n, kind) }) {
			all = append(all, n)
		}
	}
	return all
}

// scan finds the notices to send.
func (s *Service) scan(ctx context.Context, visit func(lease.Job)) (all bool) {
	all = s.scanReviews(ctx, visit)
	if s.options.Outbox != nil && s.wanted(runTypes...) != nil {
		all = s.scanRuns(ctx, visit) && all
	}
	return all
}

// scanReviews finds the pending reviews.
func (s *Service) scanReviews(ctx context.Context, visit func(lease.Job)) (all bool) {
	if s.wanted(typePending, typeEscalated) == nil {
		return true
	}
	err := s.visitReviews(ctx, func(r *review.Summary) {
		for step, people := range s.options.Due(r, time.Now()) {
			notice := s.notice(r, step, people.Who)
			for _, n := range s.wanted(notice.Type) {
				visit(lease.Job{Lane: strconv.Itoa(n), ID: notice.Key(), Do: func(ctx context.Context) time.Time { return s.send(ctx, n, notice) }})
			}
		}
	})
	if err != nil && ctx.Err() == nil {
		s.options.Logger.Error("reading the pending reviews failed; no notices are sent", zap.Error(err))
	}
	return err == nil
}

func (s *Service) visitReviews(ctx context.Context, visit func(*review.Summary)) error {
	guard, err := s.options.Guard(ctx)
	if err != nil {
		return err
	}
	set := s.options.Set()
	for reviewer := range s.reviewers(set) {
		reviews, err := guard.Reviews.List(ctx, reviewer)
		if err != nil {
			return err
		}
		for i := range reviews {
			if set.Agents[reviews[i].Agent] != nil { // otherwise the review belongs to another site
				visit(&reviews[i])
			}
		}
	}
	return nil
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

// send sends one notice, unless another node is sending it or has sent it. It returns the time of the next
// check; zero for never.
func (s *Service) send(ctx context.Context, n int, r *Notice) (again time.Time) {
	claim, again, err := s.claim(ctx, n, r)
	switch {
	case ctx.Err() != nil && claim == nil:
		return time.Now()
	case err != nil:
		s.options.Logger.Error("claiming a notice failed", append(s.fields(n, r), zap.Error(err))...)
		return time.Now().Add(s.pace.OtherNodeDelay)
	case claim == nil:
		return again
	}
	within, cancel := context.WithTimeout(ctx, s.maxDuration(n))
	defer cancel()
	switch failure := s.options.Notifiers[n].Notify(within, r); {
	case failure == nil:
		err = s.succeed(ctx, claim, n)
	case ctx.Err() != nil:
		again, err = time.Now(), claim.Release(ctx) // the next configuration can send it at once
	default:
		again, err = s.fail(ctx, claim, n, r, failure)
	}
	if err == nil {
		return again
	}
	if !errors.Is(err, lease.ErrLost) {
		s.options.Logger.Error("recording a notice failed; it may be sent again", append(s.fields(n, r), zap.Error(err))...)
	}
	return time.Now().Add(s.pace.OtherNodeDelay)
}

// succeed records that a notice was sent. If the store fails, it repeats that while it has the lease.
func (s *Service) succeed(ctx context.Context, claim *lease.Claim[*sendState], n int) error {
	ctx, cancel := context.WithTimeout(ctx, leaseMargin)
	defer cancel()
	return s.terms(n).Repeat(ctx, func() error {
		return claim.End(ctx, func(state *sendState, _ *lease.Lease) error {
			state.Done = true
			return nil
		})
	})
}

// fail records that a notice was not sent. It returns the time of the next try; zero for none.
func (s *Service) fail(ctx context.Context, claim *lease.Claim[*sendState], n int, r *Notice, failure error) (again time.Time, err error) {
	var after sendState
	err = claim.End(ctx, func(state *sendState, l *lease.Lease) error {
		state.Done = !s.terms(n).Retry(l)
		after = *state
		return nil
	})
	s.options.Logger.Warn("sending a notice failed", append(s.fields(n, r), zap.Int("try", after.Lease.Tries),
		zap.Bool("last", after.Done), zap.String("error", text.Cut(failure.Error(), maxError)))...)
	if after.Done {
		return time.Time{}, err
	}
	return after.Lease.Until, err
}

// fields returns what the log says of a notice.
func (s *Service) fields(n int, notice *Notice) []zap.Field {
	fields := []zap.Field{zap.String("notice", notice.Key()), zap.String("type", notice.Type), zap.String("agent", notice.Agent)}
	if module, ok := s.options.Notifiers[n].(caddy.Module); ok {
		fields = append(fields, zap.String("notifier", module.CaddyModule().ID.Name()))
	}
	return fields
}

// maxDuration returns how long a Notifier has for one notice.
func (s *Service) maxDuration(n int) time.Duration {
	return min(s.options.Notifiers[n].MaxDuration(), timeout)
}

// notice returns the notice about a review to the people of a step.
func (s *Service) notice(r *review.Summary, step int, people []string) *Notice {
	n := &Notice{
		ID: r.ID, Type: typePending, Reviewer: r.Reviewer, Agent: r.Agent, User: r.User.ID, Name: r.Name, Side: string(r.Side), Rule: r.Rule,
		AskedAt: r.AskedAt, ExpiresAt: r.ExpiresAt, People: people, Step: step,
	}
	if step > 0 {
		n.Type = typeEscalated
	}
	if s.options.Reviews != "" {
		n.Location = s.options.Reviews + "/" + r.ID
	}
	return n
}

// sendState is the record of a notice for a Notifier.
type sendState struct {
	Lease lease.Lease `json:"lease"`
	Done  bool        `json:"done,omitempty"` // it was sent, or it has failed too often
}

func (s *Service) terms(n int) *lease.Terms {
	return &lease.Terms{Duration: s.maxDuration(n) + leaseMargin, Pause: s.pace.RetryPause, MaxPause: maxPause, MaxTries: maxTries}
}

// key returns the key of the sendState of a notice.
func (s *Service) key(n int, r *Notice) string {
	target := sha256.Sum256([]byte(s.options.Notifiers[n].Target()))
	return keyPrefix + base64.RawURLEncoding.EncodeToString(target[:12]) + "/" + r.Key()
}

// decodeSendState decodes a record, which may be empty.
func decodeSendState(key string, value []byte) (*sendState, error) {
	state := new(sendState)
	if len(value) > 0 {
		return state, stored.Decode("notices", key, value, state)
	}
	return state, nil
}

// claim claims a notice, so that no other node sends it. It returns nil if another node does, with the time
// of the next check, or if the notice needs no sending.
func (s *Service) claim(ctx context.Context, n int, r *Notice) (claim *lease.Claim[*sendState], again time.Time, err error) {
	st, err := s.options.Store(ctx)
	if err != nil {
		return nil, again, err
	}
	key := s.key(n, r)
	ttl := min(max(time.Until(r.expiry()), 0)+doneTTL, store.MaxTTL)
	transact := func(ctx context.Context, change func(*sendState, *lease.Lease) error) error {
		return st.Update(ctx, key, func(old store.Record) (store.Change, error) {
			state, err := decodeSendState(key, old.Value)
			if err != nil {
				return store.Change{}, err
			}
			if err := change(state, &state.Lease); err != nil {
				return store.Change{}, err
			}
			value, err := json.Marshal(state)
			return store.Change{Value: value, TTL: ttl}, err
		})
	}
	var found sendState
	claim, err = lease.Take(ctx, s.terms(n), transact, func(state *sendState) bool {
		found = *state
		return !state.Done
	})
	if claim == nil && err == nil && !found.Done {
		again = found.Lease.Until
	}
	return claim, again, err
}
