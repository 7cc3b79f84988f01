package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/store"
)

var (
	// ErrNotFound means that there is no such run, or that it has expired.
	ErrNotFound = errors.New("no such Engagement")
	// ErrEnded means that the run has ended and accepts nothing more.
	ErrEnded = errors.New("the Engagement has ended")
	// ErrFull means that a run has the maximum number of unread inputs (MaxInputs).
	ErrFull = errors.New("the Engagement has too many unread inputs; try again later")

	// errLost means that another node works on the run, or that it has ended.
	errLost = errors.New("the lease of the run is lost")
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
	ttl   time.Duration // after the last change
	now   func() time.Time
}

// create stores a new run.
func (s *storage) create(ctx context.Context, st *State) error {
	value, err := json.Marshal(st)
	if err != nil {
		return err
	}
	return s.store.Put(ctx, stateKey+st.ID, store.Change{Value: value, TTL: s.ttl})
}

// get reads the state of a run, or ErrNotFound.
func (s *storage) get(ctx context.Context, id string) (*State, error) {
	if !validID(id) {
		return nil, ErrNotFound
	}
	r, err := s.store.Get(ctx, stateKey+id)
	return decodeRecord(id, r, err)
}

// wait blocks until the state differs from the encoded one, and returns the state with its
// encoding.
func (s *storage) wait(ctx context.Context, id string, seen []byte) (*State, []byte, error) {
	r, err := s.store.Wait(ctx, stateKey+id, seen)
	st, err := decodeRecord(id, r, err)
	return st, r.Value, err
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
	if err := json.Unmarshal(value, st); err != nil {
		return nil, fmt.Errorf("the state of the run %s cannot be read: %w", id, err)
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
	err := s.store.Update(ctx, stateKey+id, func(old store.Record) (c store.Change, err error) {
		if old.Value == nil {
			return c, ErrNotFound
		}
		if st, err = decodeState(id, old.Value); err != nil {
			return c, err
		}
		entries, err := change(st)
		if err != nil {
			return c, err
		}
		st.Changed = s.now().UTC()
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
		page, err := s.store.Read(ctx, stateKey+id, from, readAtOnce)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, data := range page {
			e, err := decodeEntry(data)
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
	if id == "" || len(id) > maxID {
		return false
	}
	for i := range len(id) {
		if c := id[i]; (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func isNotFound(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrNotFound)
}
