package openapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"
)

// DefaultMaxDocument is the size limit of one document file, in bytes after
// decompression.
const DefaultMaxDocument = 64 << 20

// A Source is where a document comes from: a FileSource, a URLSource or a
// SiteSource. Its fetches must not overlap.
type Source interface {
	// Location names the document in messages: a path or a URL without its
	// credentials and query.
	Location() string

	// Fetch reads the document if it is not the one that previous came from.
	// Previous is what the last Fetch returned (see Snapshot.Keep), nil at
	// first. If nothing changed, changed is false and the snapshot has no Data;
	// it replaces previous all the same, as it knows the newer validators.
	Fetch(ctx context.Context, previous *Snapshot) (snapshot *Snapshot, changed bool, err error)
}

// ErrTooLarge reports a document over its size limit.
var ErrTooLarge = errors.New("the document is too large")

// A Snapshot is a document as it was at one moment, with what a later Fetch
// needs to see that it has changed.
type Snapshot struct {
	Data     []byte // nil if nothing changed or after Keep
	Location string // what relative $refs are resolved against

	hash       [sha256.Size]byte
	validators validators  // of an HTTP answer
	files      []watchFile // of a file: itself first, then those it refers to
	began      time.Time   // when the Fetch began, of a file
}

// Keep returns the snapshot without the document's bytes, watching the other
// files that the document was found to refer to. Paths that do not exist may be
// among them: that they appear is a change.
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

// sameContent reports whether the other snapshot had the same bytes.
func (s *Snapshot) sameContent(other *Snapshot) bool {
	return other != nil && s.hash == other.hash
}

// maxTrusted is how much memory, in bytes, is set aside at once for a size that
// was only announced.
const maxTrusted = 32 << 20

// readBounded reads all of r, at most limit bytes; sizeHint is how many are
// expected, 0 or less if that is unknown.
func readBounded(r io.Reader, limit, sizeHint int64) ([]byte, error) {
	if limit <= 0 {
		limit = DefaultMaxDocument
	}
	if sizeHint > limit {
		return nil, tooLarge(limit)
	}
	data := make([]byte, 0, min(max(sizeHint, 0), maxTrusted)+512)
	bounded := io.LimitReader(r, limit+1)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := bounded.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if int64(len(data)) > limit {
			return nil, tooLarge(limit)
		}
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func tooLarge(limit int64) error {
	return fmt.Errorf("%w: over the limit of %d bytes", ErrTooLarge, limit)
}
