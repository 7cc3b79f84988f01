package run

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

var (
	// ErrNotFound means that there is no such run, or that it has expired.
	ErrNotFound = errors.New("no such Engagement")
	// ErrEnded means that the run has ended and accepts nothing more.
	ErrEnded = errors.New("the Engagement has ended")
	// ErrFull means that a run has the maximum number of unread inputs (MaxInputs).
	ErrFull = errors.New("the Engagement has too many unread inputs; try again later")

	// errUnreadable means that the record of a run is invalid, so it is of no use to try again.
	errUnreadable = errors.New("the state of the run cannot be read")
	// errUnchanged makes storage.change write nothing.
	errUnchanged = errors.New("nothing to change")
)

const (
	stateKey   = "run/" // followed by the id
	readAtOnce = 1000   // entries of a log
)

// storage keeps runs in the store: the State as the value of a record, and the entries as its
// log.
type storage struct {
	store store.Store
	realm string        // begins each key, see Options.Realm
	ttl   time.Duration // after the last change
	now   func() time.Time

	notices *NoticeOptions // nil if there are none
}

const realmKey = "realm/" // followed by the realm

// realmPrefix returns what begins the keys of a realm, see Options.Realm.
func realmPrefix(realm string) string {
	if realm == "" {
		return ""
	}
	return realmKey + realm + "/"
}

// moveNotices moves the pending notices of a run to the Outbox, if there is one.
func (s *storage) moveNotices(ctx context.Context, st *State) error {
	if s.notices == nil {
		return nil
	}
	return s.notices.move(ctx, s, st)
}

// create stores a new run.
func (s *storage) create(ctx context.Context, st *State) error {
	value, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return s.store.Put(ctx, s.realm+stateKey+st.ID, store.Change{Value: value, TTL: s.ttl, Owner: share.OwnerOf(st.User.ID, "")})
}

// get reads the state of a run, or ErrNotFound.
func (s *storage) get(ctx context.Context, id string) (*State, error) {
	if !validID(id) {
		return nil, ErrNotFound
	}
	r, err := s.store.Get(ctx, s.realm+stateKey+id)
	return decodeRecord(id, r, err)
}

func decodeRecord(id string, r store.Record, err error) (*State, error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, ErrNotFound
	case err != nil:
		return nil, err
	}
	return decodeState(id, r.Value)
}

func decodeState(id string, value []byte) (*State, error) {
	st := new(State)
	if err := stored.Decode("runs", stateKey+id, value, st); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return st, nil
}

// change updates the state of a run in a transaction, and appends the returned entries to its log.
// The function may be called several times; only the last call takes effect. If it returns
// errUnchanged, nothing is written and the error is nil.
func (s *storage) change(ctx context.Context, id string, change func(*State) ([]entry, error)) (*State, error) {
	if !validID(id) {
		return nil, ErrNotFound
	}
	var st *State
	err := s.store.Update(ctx, s.realm+stateKey+id, func(old store.Record) (c store.Change, err error) {
		if old.Value == nil {
			return c, ErrNotFound
		}
		if st, err = decodeState(id, old.Value); err != nil {
			return c, err
		}
		wasFinal := st.Status.IsFinal()
		entries, err := change(st)
		if err != nil {
			return c, err
		}
		st.Changed = s.now().UTC()
		if s.notices != nil {
			s.notices.note(st, wasFinal, st.Changed)
		}
		c.TTL = s.ttl
		if c.Entries, err = s.encodeEntries(entries, st.Changed); err != nil {
			return c, err
		}
		c.Value, err = json.Marshal(st, jsontext.AllowInvalidUTF8(true))
		return c, err
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return st, err
}

// delete deletes a run in a transaction, if check returns nil.
func (s *storage) delete(ctx context.Context, id string, check func(*State) error) error {
	return s.store.Update(ctx, s.realm+stateKey+id, func(old store.Record) (store.Change, error) {
		if old.Value == nil {
			return store.Change{}, ErrNotFound
		}
		st, err := decodeState(id, old.Value)
		if err == nil {
			err = check(st)
		}
		return store.Change{Delete: true}, err
	})
}

func (s *storage) encodeEntries(entries []entry, at time.Time) ([][]byte, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	encoded := make([][]byte, len(entries))
	for i := range entries {
		entries[i].At = at
		var err error
		if encoded[i], err = json.Marshal(&entries[i], jsontext.AllowInvalidUTF8(true)); err != nil {
			return nil, err
		}
	}
	return encoded, nil
}

// entries calls visit with each entry of a run's log.
func (s *storage) entries(ctx context.Context, id string, visit func(*entry) error) error {
	for from := int64(0); ; {
		page, err := s.store.Read(ctx, s.realm+stateKey+id, from, readAtOnce)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, data := range page {
			e, err := decodeEntry(id, data)
			if err == nil {
				err = visit(e)
			}
			if err != nil {
				return fmt.Errorf("the run %s: %w", id, err)
			}
		}
		from += int64(len(page))
	}
}

// maxID is the maximum length of the id of a run in bytes.
const maxID = 64

// validID reports whether the id can be that of a run, that is, of the form that rand.Text returns.
func validID(id string) bool {
	return id != "" && len(id) <= maxID && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

func isNotFound(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrNotFound)
}

// Values of entry.Kind.
const (
	entryMessage = "message" // a message of the user or the model
	entryBegun   = "begun"   // a tool call is about to be made
	entryWaiting = "waiting" // a tool call waits, see Wait
	entryResult  = "result"  // the result of a tool call
	entrySummary = "summary" // a summary of earlier messages; no part of the conversation
	entryResumed = "resumed" // a node claimed the run
	entryEnded   = "ended"
)

// entry is an entry of the log of a run. Messages and results are the conversation; the other
// entries record the progress of the run.
type entry struct {
	Kind    string            `json:"what"`
	At      time.Time         `json:"at"`
	Message *model.Message    `json:"message,omitzero"`
	Usage   *model.Usage      `json:"usage,omitzero"` // of a message of the model, or of a summary
	Call    int               `json:"call,omitzero"`  // index in the model's last message
	Name    string            `json:"name,omitzero"`
	Result  *model.ToolResult `json:"result,omitzero"`
	Wait    *Wait             `json:"wait,omitzero"`
	Node    string            `json:"node,omitzero"`
	Status  Status            `json:"status,omitzero"`
	Ending  *Ending           `json:"ending,omitzero"`
}

// conversation are the messages of a run so far.
type conversation struct {
	messages []model.Message
	results  []model.ToolResult // of the last message, by call
	arrived  int                // number of results
}

// add adds an entry of the log. When each call of the last message has a result, the results become
// a message.
func (c *conversation) add(e *entry) error {
	switch e.Kind {
	case entryMessage:
		if e.Message == nil || c.results != nil {
			return errors.New("its log has a message in the wrong position")
		}
		c.messages = append(c.messages, *e.Message)
		if n := len(e.Message.Calls); n > 0 {
			c.results = make([]model.ToolResult, n)
		}
	case entryResult:
		if e.Result == nil || e.Call < 0 || e.Call >= len(c.results) || c.results[e.Call].CallID != "" {
			return errors.New("its log has a result in the wrong position")
		}
		c.results[e.Call] = *e.Result
		if c.arrived++; c.arrived == len(c.results) {
			c.messages = append(c.messages, model.Message{Role: model.RoleTool, Results: c.results})
			c.results, c.arrived = nil, 0
		}
	}
	return nil
}

// addAll adds entries in order.
func (c *conversation) addAll(entries []entry) error {
	for i := range entries {
		if err := c.add(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// calls returns the calls of the model's last message.
func (c *conversation) calls() []model.ToolCall {
	if len(c.messages) == 0 {
		return nil
	}
	return c.messages[len(c.messages)-1].Calls
}

func decodeEntry(id string, data []byte) (*entry, error) {
	e := new(entry)
	return e, stored.Decode("runs", stateKey+id, data, e)
}

// index lists the runs that have not ended, so that a node finds the runs of a dead node without
// reading all keys of the store. A new run is added after it is stored, a later round before it is stored. Both are removed
// after their end.
// The ids are distributed over indexShards records.
type index struct{ storage *storage }

const (
	indexKey    = "run-index/" // followed by the number of the shard
	indexShards = 16
)

// indexed is an entry of the index: a round of a run, see conversation.go.
type indexed struct {
	id    string
	round int
}

func (s *State) indexed() indexed { return indexed{s.ID, s.Round} }

// String returns the form of the entry in the store: the id, and "@" with the number of a round after the first.
func (x indexed) String() string {
	if x.round == 0 {
		return x.id
	}
	return x.id + "@" + strconv.Itoa(x.round)
}

func parseIndexed(entry string) indexed {
	id, round, _ := strings.Cut(entry, "@")
	n, _ := strconv.Atoi(round) // 0 for the first round
	return indexed{id, n}
}

// shardOf returns the key of the record that has a run, of those that begin with a prefix.
func shardOf(prefix, id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return prefix + strconv.Itoa(int(h.Sum32()%indexShards))
}

func (x index) add(ctx context.Context, run indexed) error {
	return x.change(ctx, shardOf(indexKey, run.id), func(ids []string) []string {
		if slices.Contains(ids, run.String()) {
			return ids
		}
		return append(ids, run.String())
	})
}

func (x index) remove(ctx context.Context, run indexed) error {
	return x.change(ctx, shardOf(indexKey, run.id), func(ids []string) []string {
		return slices.DeleteFunc(ids, func(listed string) bool { return listed == run.String() })
	})
}

// change replaces the list of a shard. The error store.ErrTooLarge means that there are too many
// runs.
func (x index) change(ctx context.Context, key string, change func([]string) []string) error {
	return x.storage.store.Update(ctx, x.storage.realm+key, func(old store.Record) (store.Change, error) {
		ids := change(splitIDs(old.Value))
		if len(ids) == 0 {
			return store.Change{Delete: true}, nil
		}
		return store.Change{Value: []byte(strings.Join(ids, "\n")), TTL: store.MaxTTL}, nil
	})
}

// all returns the entries of all shards.
func (x index) all(ctx context.Context) ([]indexed, error) {
	var all []indexed
	for shard := range indexShards {
		r, err := x.storage.store.Get(ctx, x.storage.realm+indexKey+strconv.Itoa(shard))
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range splitIDs(r.Value) {
			all = append(all, parseIndexed(entry))
		}
	}
	return all, nil
}

func splitIDs(value []byte) []string {
	if len(value) == 0 {
		return nil
	}
	return strings.Split(string(value), "\n")
}

// presence records which nodes are alive. A node that has not announced itself for Options.Lease is
// dead, and other nodes may claim the runs whose home it was.
type presence struct {
	storage *storage
	terms   *lease.Terms
}

const (
	nodeKey          = "run-node/" // followed by the name of the node
	announcesInLease = 3
)

// announceRegularly records that this node is alive, until ctx ends.
func (p presence) announceRegularly(ctx context.Context, report func(error)) {
	for ctx.Err() == nil {
		report(p.storage.store.Put(ctx, p.storage.realm+nodeKey+p.terms.Node, store.Change{
			Value: []byte(p.storage.now().UTC().Format(time.RFC3339)), TTL: p.terms.Duration,
		}))
		pause(ctx, p.terms.Duration/announcesInLease)
	}
}

// end records that this node has ended.
func (p presence) end(ctx context.Context) error {
	return p.storage.store.Delete(ctx, p.storage.realm+nodeKey+p.terms.Node)
}

// isAlive reports whether a node is alive. If the store fails, the node counts as alive.
func (p presence) isAlive(ctx context.Context, node string) (bool, error) {
	if !p.terms.MayBeAlive(node) {
		return false, nil
	}
	_, err := p.storage.store.Get(ctx, p.storage.realm+nodeKey+node)
	if isNotFound(err) {
		return false, nil
	}
	return true, err
}
