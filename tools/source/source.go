package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/fairwayhq/fairway/internal/watch"
)

// DefaultMaxDocument is the maximum size of a document file, in bytes after
// decompression.
const DefaultMaxDocument = 64 << 20

// A Source fetches a document. It is a File, a URL, a Site, or the tools of an MCP server. Its
// fetches must not overlap.
type Source interface {
	// Location identifies the document in messages: a path, or a URL without its
	// credentials and query.
	Location() string

	// Fetch reads the document if it has changed since previous, the last snapshot that
	// Fetch returned (see Snapshot.Keep), or nil for the first call. If it has not
	// changed, changed is false and the snapshot has no Data. The snapshot replaces
	// previous in either case, since it has newer validators.
	Fetch(ctx context.Context, previous *Snapshot) (snapshot *Snapshot, changed bool, err error)
}

// ErrTooLarge reports a document that exceeds its size limit.
var ErrTooLarge = errors.New("the document is too large")

// A Snapshot is a document at one point in time, with the data that a later Fetch needs
// to detect changes.
type Snapshot struct {
	Data     []byte // nil if nothing changed or after Keep
	Location string // base for relative $refs

	hash       [sha256.Size]byte // for an HTTP response
	validators validators        // for an HTTP response
	state      *watch.State      // for a file
}

// Keep returns the snapshot without the document's bytes. It also watches the other files
// that the document refers to. Paths that do not exist may be among them: if one appears,
// that is a change.
func (s *Snapshot) Keep(files []string) *Snapshot {
	kept := *s
	kept.Data = nil
	if s.state != nil {
		kept.state = s.state.Follow(files, DefaultMaxDocument)
	}
	return &kept
}

// Files returns the other files that the snapshot watches.
func (s *Snapshot) Files() []string {
	if s.state == nil {
		return nil
	}
	return s.state.Followed()
}

// sameContent reports whether the other snapshot has the same bytes.
func (s *Snapshot) sameContent(other *Snapshot) bool {
	return other != nil && s.hash == other.hash
}

// sizeLimit returns the limit of a document with the configured limit.
func sizeLimit(configured int64) int64 {
	if configured <= 0 {
		return DefaultMaxDocument
	}
	return configured
}

func tooLarge(limit int64) error {
	return fmt.Errorf("%w: over the limit of %d bytes", ErrTooLarge, limit)
}

// NewSnapshot returns the snapshot of a document that was made of something else, and whether it differs from the
// previous one. It is for implementations of Source outside this package.
func NewSnapshot(data []byte, location string, previous *Snapshot) (snapshot *Snapshot, changed bool) {
	snapshot = &Snapshot{Data: data, Location: location, hash: sha256.Sum256(data)}
	if snapshot.sameContent(previous) {
		snapshot.Data = nil
		return snapshot, false
	}
	return snapshot, true
}
