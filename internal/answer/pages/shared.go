package pages

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/fairwayhq/fairway/internal/answer"
	"github.com/fairwayhq/fairway/store"
)

// Keys of the records in a shared store.
const (
	pagesKey  = "pages/set/"   // followed by the id of a set; the value is its owner, and each entry of the log is a page
	ownersKey = "pages/owner/" // followed by an owner; the value lists the owner's sets
)

// maxOwnedSets is how many responses of one owner are kept in a shared store.
const maxOwnedSets = 256

// shared keeps pages in a store that several nodes share.
type shared struct {
	open func(context.Context) (store.Store, error)
}

// keep writes the pages, then lists the set with its owner and deletes older sets of the owner until the
// limits hold. If it fails between these steps, the pages still expire.
func (s *shared) keep(ctx context.Context, owner Owner, id string, list []answer.Page, size int) error {
	records, err := s.open(ctx)
	if err != nil {
		return err
	}
	key := pagesKey + id
	change := store.Change{Value: []byte(owner), TTL: Lifetime}
	batch := 0
	for i := range list {
		entry := appendPage(make([]byte, 0, pageSize(&list[i])), &list[i])
		if batch+len(entry) > store.DefaultMaxValue && len(change.Entries) > 0 || len(change.Entries) == store.MaxEntries {
			if err := records.Put(ctx, key, change); err != nil {
				return err
			}
			change, batch = store.Change{TTL: Lifetime}, 0
		}
		change.Entries = append(change.Entries, entry)
		batch += len(entry)
	}
	if err := records.Put(ctx, key, change); err != nil {
		return err
	}
	var dropped []string
	err = records.Update(ctx, ownersKey+string(owner), func(old store.Record) (store.Change, error) {
		var sets []ownedSet
		sets, dropped = addSet(parseSets(old.Value), ownedSet{id: id, size: size, expires: time.Now().Add(Lifetime)})
		return store.Change{Value: appendSets(nil, sets), TTL: Lifetime}, nil
	})
	if err != nil || len(dropped) == 0 {
		return err
	}
	return records.Delete(ctx, dropped...)
}

// page returns a page and the number of pages in its set.
func (s *shared) page(ctx context.Context, owner Owner, id string, number int) (page answer.Page, total int, err error) {
	records, err := s.open(ctx)
	if err != nil {
		return page, 0, err
	}
	key := pagesKey + id
	record, err := records.Get(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (string(record.Value) != string(owner) || int64(number) >= record.Length):
		return page, 0, ErrUnknown
	case err != nil:
		return page, 0, err
	}
	entries, err := records.Read(ctx, key, int64(number), 1)
	if err != nil {
		return page, 0, err
	}
	if len(entries) == 0 {
		return page, 0, ErrUnknown
	}
	page, err = parsePage(entries[0])
	return page, int(record.Length), err
}

// appendPage encodes a page.
func appendPage(dst []byte, p *answer.Page) []byte {
	kind := byte(0)
	if p.JSON {
		kind = 1
	}
	dst = binary.AppendUvarint(append(dst, kind), uint64(len(p.Note)))
	return append(append(dst, p.Note...), p.Body...)
}

// errEntry reports an entry of the store that is not a page.
var errEntry = errors.New("an entry of the store is not a page")

// parsePage decodes a page.
func parsePage(entry []byte) (p answer.Page, err error) {
	if len(entry) == 0 {
		return p, errEntry
	}
	length, n := binary.Uvarint(entry[1:])
	if rest := len(entry) - 1 - n; n <= 0 || length > uint64(max(rest, 0)) {
		return p, errEntry
	}
	note := 1 + n
	body := note + int(length)
	return answer.Page{JSON: entry[0] == 1, Note: string(entry[note:body]), Body: entry[body:]}, nil
}

// An ownedSet is an entry of the list of an owner's sets.
type ownedSet struct {
	id      string
	size    int
	expires time.Time
}

// addSet appends a set to the list, which is oldest first. It removes expired sets, and as many old ones
// as the limits require: dropped are the keys of the latter.
func addSet(sets []ownedSet, added ownedSet) (kept []ownedSet, dropped []string) {
	sets = append(sets, added)
	size, first := 0, len(sets)
	for first > 0 && len(sets)-first < maxOwnedSets && size+sets[first-1].size <= MaxOwner && sets[first-1].expires.After(time.Now()) {
		first--
		size += sets[first].size
	}
	for _, s := range sets[:first] {
		dropped = append(dropped, pagesKey+s.id)
	}
	return sets[first:], dropped
}

// appendSets encodes a list of sets, one a line.
func appendSets(dst []byte, sets []ownedSet) []byte {
	for _, s := range sets {
		dst = fmt.Appendf(dst, "%s %d %d\n", s.id, s.size, s.expires.Unix())
	}
	return dst
}

// parseSets decodes a list of sets. It ignores what follows a malformed line.
func parseSets(value []byte) (sets []ownedSet) {
	for line := range bytes.Lines(value) {
		var s ownedSet
		var expires int64
		if _, err := fmt.Sscanf(string(line), "%s %d %d\n", &s.id, &s.size, &expires); err != nil {
			break
		}
		s.expires = time.Unix(expires, 0)
		sets = append(sets, s)
	}
	return sets
}
