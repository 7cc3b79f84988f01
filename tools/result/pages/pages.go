// Package pages keeps the pages of large responses for a while, so that the caller who got the first
// page can read the others without another call of the API.
//
// A Keeper keeps them in memory, or, if several nodes share a store, in that store, so that any node
// can serve them. In memory, the oldest responses are dropped when a limit is reached.
package pages

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
	"github.com/fairwayhq/fairway/tools/result"
)

// Limits of the pages in memory.
const (
	// Lifetime is how long pages are kept.
	Lifetime = 10 * time.Minute

	// MaxResponse is the maximum size of the pages that are kept of one response, in bytes.
	MaxResponse = 8 << 20

	// MaxTotal is the maximum size of the pages that a Keeper keeps in memory, in bytes, with a share for
	// each user and network. A shared store has limits of its own.
	MaxTotal = 64 << 20

	// pageOverhead is added to the size of each page, so that the number of small pages is limited.
	pageOverhead = 256
)

// maxCursor is the maximum length of a cursor that is looked up.
const maxCursor = 64

// Errors of a Keeper.
var (
	// ErrUnknown reports a cursor that does not exist, has expired or belongs to another owner.
	ErrUnknown = errors.New("the cursor is unknown or has expired")

	// ErrTooLarge reports that the first page exceeds the limits.
	ErrTooLarge = errors.New("the page is too large to be kept")
)

// An Owner identifies who may read pages: a user or client at an endpoint. See Keeper.Owner.
type Owner string

// A Keeper keeps pages. It is safe for concurrent use.
type Keeper struct {
	memory memory
	shared *shared // nil if the pages are kept in memory
	keys   *keyedhash.Keys
}

// New returns a Keeper that keeps pages in memory. See share.Options.Warn for warn.
func New(warn func(share.Usage)) *Keeper {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return &Keeper{keys: keyedhash.NewKeys(secret[:]), memory: memory{
		bound: share.NewBound(share.Options{Name: "page bytes", Limit: MaxTotal, Warn: warn}),
		sets:  make(map[string]*list.Element), owners: make(map[share.Owner][]*set),
	}}
}

// NewShared returns a Keeper that keeps pages in a store that several nodes share.
func NewShared(open func(context.Context) (store.Store, error)) *Keeper {
	k := New(nil)
	k.shared, k.keys = &shared{open: open}, keyedhash.NewKeys(nil)
	return k
}

// Owner returns the owner that is identified by these values: a keyed hash, so that credentials can be
// among them.
func (k *Keeper) Owner(ctx context.Context, identity ...string) (Owner, error) {
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
	return Owner(base64.RawURLEncoding.EncodeToString(digest[:idSize])), nil
}

// Usage returns how much of the limit in memory is in use. It is empty for a shared store.
func (k *Keeper) Usage() []share.Usage {
	if k.shared != nil {
		return nil
	}
	return []share.Usage{k.memory.bound.Usage()}
}

// Close drops the pages in memory.
func (k *Keeper) Close() {
	k.memory.close()
}

// Keep keeps pages and returns the cursor of the first of them. They use the share of by. If they are larger than
// MaxResponse, the last ones are dropped: count is how many are kept. To make room, it drops the oldest pages of
// the user or network that uses most.
func (k *Keeper) Keep(ctx context.Context, owner Owner, by share.Owner, all []result.Page) (cursor string, count int, err error) {
	size := 0
	for count < len(all) && size+pageSize(&all[count]) <= MaxResponse {
		size += pageSize(&all[count])
		count++
	}
	if count == 0 {
		return "", 0, ErrTooLarge
	}
	if count < len(all) {
		all = slices.Clone(all[:count])
		all[count-1].Note += "; the gateway keeps no more of it"
	}
	id := newID()
	if k.shared != nil {
		err = k.shared.keep(ctx, owner, by, id, all[:count])
	} else {
		k.memory.keep(&set{id: id, owner: owner, by: by, pages: all[:count], size: size, expires: time.Now().Add(Lifetime)})
	}
	return cursorOf(id, 0), count, err
}

// Page returns the page of a cursor, and the cursor of the page after it, which is "" for the last
// page. The same cursor returns the same page until it expires. The error is ErrUnknown if the owner
// has no such page.
func (k *Keeper) Page(ctx context.Context, owner Owner, cursor string) (page result.Page, next string, err error) {
	id, number, ok := parseCursor(cursor)
	if !ok {
		return page, "", ErrUnknown
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
func pageSize(p *result.Page) int {
	return len(p.Body) + len(p.Note) + pageOverhead
}

// idSize is the size of the random part of a cursor, in bytes. It cannot be guessed.
const idSize = 16

// newID returns the random part of a new cursor.
func newID() string {
	var id [idSize]byte
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
	if err != nil || len(raw) != idSize {
		return "", 0, false
	}
	number, err = strconv.Atoi(text)
	return id, number, err == nil && number >= 0
}
