package result

import (
	"container/list"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/keyedhash"
)

// Limits of the pages in memory.
const (
	// PageLifetime is how long pages are kept.
	PageLifetime = 10 * time.Minute

	// maxKeptResponse is the maximum size of the pages that are kept of one response, in bytes.
	maxKeptResponse = 8 << 20

	// maxKeptPages is the maximum size of the pages that a PageKeeper keeps in memory, in bytes, with a share for
	// each user and network. A shared store has limits of its own.
	maxKeptPages = 64 << 20

	// pageOverhead is added to the size of each page, so that the number of small pages is limited.
	pageOverhead = 256
)

// maxCursor is the maximum length of a cursor that is looked up.
const maxCursor = 64

// Errors of a PageKeeper.
var (
	// ErrUnknownPage reports a cursor that does not exist, has expired or belongs to another owner.
	ErrUnknownPage = errors.New("the cursor is unknown or has expired")

	// errPageTooLarge reports that the first page exceeds the limits.
	errPageTooLarge = errors.New("the page is too large to be kept")
)

// A PageOwner identifies who may read pages: a user or client at an endpoint. See PageKeeper.Owner.
type PageOwner string

// A PageKeeper keeps pages. It is safe for concurrent use.
type PageKeeper struct {
	memory pageMemory
	shared *sharedPages // nil if the pages are kept in memory
	keys   *keyedhash.Keys
}

// NewPageKeeper returns a PageKeeper that keeps pages in memory. See share.Options.Warn for warn.
func NewPageKeeper(warn func(share.Usage)) *PageKeeper {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return &PageKeeper{keys: keyedhash.NewKeys(secret[:]), memory: pageMemory{
		bound: share.NewBound(share.Options{Name: "page bytes", Limit: maxKeptPages, Warn: warn}),
		sets:  make(map[string]*list.Element), owners: make(map[share.Owner][]*pageSet),
	}}
}

// NewSharedPageKeeper returns a PageKeeper that keeps pages in a store that several nodes share.
func NewSharedPageKeeper(open func(context.Context) (store.Store, error)) *PageKeeper {
	k := NewPageKeeper(nil)
	k.shared, k.keys = &sharedPages{open: open}, keyedhash.NewKeys(nil)
	return k
}

// Owner returns the owner that is identified by these values: a keyed hash, so that credentials can be
// among them.
func (k *PageKeeper) Owner(ctx context.Context, identity ...string) (PageOwner, error) {
	var records store.Store
	if k.shared != nil {
		var err error
		if records, err = k.shared.open(ctx); err != nil {
			return "", err
		}
	}
	key, err := k.keys.Current(ctx, records)
	if err != nil {
		return "", err
	}
	h := key.Hash("pages")
	for _, value := range identity {
		h.Add(value)
	}
	digest := h.Digest()
	return PageOwner(base64.RawURLEncoding.EncodeToString(digest[:pageIDSize])), nil
}

// Usage returns how much of the limit in memory is in use. It is empty for a shared store.
func (k *PageKeeper) Usage() []share.Usage {
	if k.shared != nil {
		return nil
	}
	return []share.Usage{k.memory.bound.Usage()}
}

// Close drops the pages in memory.
func (k *PageKeeper) Close() {
	k.memory.close()
}

// Keep keeps pages and returns the cursor of the first of them. They use the share of by. If they are larger than
// maxKeptResponse, the last ones are dropped: count is how many are kept. To make room, it drops the oldest pages of
// the user or network that uses most.
func (k *PageKeeper) Keep(ctx context.Context, owner PageOwner, by share.Owner, all []Page) (cursor string, count int, err error) {
	size := 0
	for count < len(all) && size+pageSize(&all[count]) <= maxKeptResponse {
		size += pageSize(&all[count])
		count++
	}
	if count == 0 {
		return "", 0, errPageTooLarge
	}
	if count < len(all) {
		all = slices.Clone(all[:count])
		all[count-1].Note += "; the gateway keeps no more of it"
	}
	id := newPageID()
	if k.shared != nil {
		err = k.shared.keep(ctx, owner, by, id, all[:count])
	} else {
		k.memory.keep(&pageSet{id: id, owner: owner, by: by, pages: all[:count], size: size, expires: time.Now().Add(PageLifetime)})
	}
	return cursorOf(id, 0), count, err
}

// Page returns the page of a cursor, and the cursor of the page after it, which is "" for the last
// page. The same cursor returns the same page until it expires. The error is ErrUnknownPage if the owner
// has no such page.
func (k *PageKeeper) Page(ctx context.Context, owner PageOwner, cursor string) (page Page, next string, err error) {
	id, number, ok := parseCursor(cursor)
	if !ok {
		return page, "", ErrUnknownPage
	}
	var total int
	if k.shared != nil {
		page, total, err = k.shared.page(ctx, owner, id, number)
	} else {
		page, total, err = k.memory.page(owner, id, number)
	}
	if err == nil && number+1 < total {
		next = cursorOf(id, number+1)
	}
	return page, next, err
}

// pageSize returns the memory that a page takes, in bytes.
func pageSize(p *Page) int {
	return len(p.Body) + len(p.Note) + pageOverhead
}

// pageIDSize is the size of the random part of a cursor, in bytes. It cannot be guessed.
const pageIDSize = 16

// newPageID returns the random part of a new cursor.
func newPageID() string {
	var id [pageIDSize]byte
	_, _ = rand.Read(id[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// cursorOf returns the cursor of a page.
func cursorOf(id string, number int) string {
	return id + "." + strconv.Itoa(number)
}

// parseCursor splits a cursor. It reports whether the cursor has the form that Keep returns.
func parseCursor(cursor string) (id string, number int, ok bool) {
	if len(cursor) > maxCursor {
		return "", 0, false
	}
	id, text, _ := strings.Cut(cursor, ".")
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(raw) != pageIDSize {
		return "", 0, false
	}
	number, err = strconv.Atoi(text)
	return id, number, err == nil && number >= 0
}
