package result

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
)

// pagesKey is the prefix of the keys in a shared store. The id of a set follows. The value is its owner, and each
// entry of the log is a page.
const pagesKey = "pages/set/"

// sharedPages keeps pages in a store that several nodes share.
type sharedPages struct {
	open func(context.Context) (store.Store, error)
}

// keep writes the pages.
func (s *sharedPages) keep(ctx context.Context, owner PageOwner, by share.Owner, id string, list []Page) error {
	records, err := s.open(ctx)
	if err != nil {
		return err
	}
	change := store.Change{Value: []byte(owner), TTL: PageLifetime, Evictable: true, Owner: by}
	batch := 0
	for i := range list {
		entry := appendPage(make([]byte, 0, pageSize(&list[i])), &list[i])
		if batch+len(entry) > store.DefaultMaxValue && len(change.Entries) > 0 || len(change.Entries) == store.MaxEntries {
			if err := records.Put(ctx, pagesKey+id, change); err != nil {
				return err
			}
			change.Entries, batch = nil, 0
		}
		change.Entries = append(change.Entries, entry)
		batch += len(entry)
	}
	return records.Put(ctx, pagesKey+id, change)
}

// page returns a page and the number of pages in its set.
func (s *sharedPages) page(ctx context.Context, owner PageOwner, id string, number int) (page Page, total int, err error) {
	records, err := s.open(ctx)
	if err != nil {
		return page, 0, err
	}
	key := pagesKey + id
	record, err := records.Get(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (string(record.Value) != string(owner) || int64(number) >= record.Length):
		return page, 0, ErrUnknownPage
	case err != nil:
		return page, 0, err
	}
	entries, err := records.Read(ctx, key, int64(number), 1)
	if err != nil {
		return page, 0, err
	}
	if len(entries) == 0 {
		return page, 0, ErrUnknownPage
	}
	page, err = parsePage(entries[0])
	return page, int(record.Length), err
}

// appendPage encodes a page.
func appendPage(dst []byte, p *Page) []byte {
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
func parsePage(entry []byte) (p Page, err error) {
	if len(entry) == 0 {
		return p, errEntry
	}
	length, n := binary.Uvarint(entry[1:])
	if rest := len(entry) - 1 - n; n <= 0 || length > uint64(max(rest, 0)) {
		return p, errEntry
	}
	note := 1 + n
	body := note + int(length)
	return Page{JSON: entry[0] == 1, Note: string(entry[note:body]), Body: entry[body:]}, nil
}
