package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/watch"
)

// A File reads a document from a file. It detects changes of this file, and of every
// file that the document refers to, with the package internal/watch.
type File struct {
	Path    string
	MaxSize int64 // bytes; 0 means DefaultMaxDocument
}

// Location returns the path.
func (s *File) Location() string {
	return s.Path
}

// Fetch reads the file if it, or a file that the document refers to, has changed.
func (s *File) Fetch(ctx context.Context, previous *Snapshot) (*Snapshot, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	var earlier *watch.State
	if previous != nil {
		earlier = previous.state
	}
	limit := sizeLimit(s.MaxSize)
	data, state, changed, err := watch.File{Path: s.Path, MaxSize: limit}.Read(earlier)
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, false, fmt.Errorf("reading the document: %s: %w", s.Path, tooLarge(limit))
	case err != nil:
		return nil, false, fmt.Errorf("reading the document: %w", err)
	case state == earlier:
		return previous, false, nil
	}
	return &Snapshot{Data: data, Location: s.Path, state: state}, changed, nil
}
