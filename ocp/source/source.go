package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// DefaultMaxDocument is the maximum size of a document file, in bytes after
// decompression.
const DefaultMaxDocument = 64 << 20

// A Source fetches a document. It is a File, a URL or a Site. Its
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

	hash       [sha256.Size]byte
	validators validators  // for an HTTP response
	files      []watchFile // for a file: the file itself, then those it refers to
	began      time.Time   // for a file: when the Fetch began
}

// Keep returns the snapshot without the document's bytes. It also watches the other files
// that the document refers to. Paths that do not exist may be among them: if one appears,
// that is a change.
func (s *Snapshot) Keep(files []string) *Snapshot {
	kept := *s
	kept.Data = nil
	if len(s.files) > 0 {
		kept.files = s.watch(files)
	}
	return &kept
}

// Files returns the other files that the snapshot watches.
func (s *Snapshot) Files() []string {
	paths := make([]string, 0, len(s.files))
	for i, file := range s.files {
		if i > 0 {
			paths = append(paths, file.path)
		}
	}
	return paths
}

// sameContent reports whether the other snapshot has the same bytes.
func (s *Snapshot) sameContent(other *Snapshot) bool {
	return other != nil && s.hash == other.hash
}

// readAtMost reads all of r, at most limit bytes. sizeHint is the expected size; 0
// means unknown.
func readAtMost(r io.Reader, limit, sizeHint int64) ([]byte, error) {
	if limit <= 0 {
		limit = DefaultMaxDocument
	}
	if sizeHint > limit {
		return nil, tooLarge(limit)
	}
	var content buffer.Buffer
	content.Grow(int(sizeHint) + 1) // one more, so that EOF is found without growing
	if err := content.ReadAll(r, limit); err != nil {
		if errors.Is(err, buffer.ErrTooLarge) {
			return nil, tooLarge(limit)
		}
		return nil, err
	}
	return content.B, nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("%w: over the limit of %d bytes", ErrTooLarge, limit)
}
