package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/store"
)

const (
	retryPause    = time.Second         // after an error of the store
	renewInterval = 24 * time.Hour      // between two looks at the age of the documents
	renewAge      = 14 * 24 * time.Hour // after which their lifetime is extended
)

// Documents returns the accepted documents, ordered by name.
func (r *Registry) Documents(ctx context.Context) ([]Document, error) {
	documents, _, err := r.read(ctx)
	return documents, err
}

// Watch calls changed with the documents, ordered by name: once at the start and after each change,
// on this node or another. It returns when ctx ends. While the store does not work, it tries again.
func (r *Registry) Watch(ctx context.Context, changed func([]Document)) {
	var seen []byte
	first := true
	for ctx.Err() == nil {
		if !first {
			err := r.waitForChange(ctx, seen)
			if errors.Is(err, errUnchanged) {
				r.renew(ctx)
				continue
			}
			if err != nil {
				r.failed(ctx, err)
				continue
			}
		}
		documents, value, err := r.read(ctx)
		if err != nil {
			r.failed(ctx, err)
			continue
		}
		seen, first = value, false
		changed(documents)
		r.renew(ctx)
	}
}

// errUnchanged reports that nothing changed for a long time.
var errUnchanged = errors.New("nothing changed")

// waitForChange waits until the index differs from seen. seen is nil if there was no index.
func (r *Registry) waitForChange(ctx context.Context, seen []byte) error {
	bounded, cancel := context.WithTimeout(ctx, renewInterval)
	defer cancel()
	_, err := r.options.Store.Wait(bounded, r.key, seen)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil // it has expired
	case err != nil && bounded.Err() != nil && ctx.Err() == nil:
		return errUnchanged
	}
	return err
}

// failed reports an error and waits before the next attempt.
func (r *Registry) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.options.Report(fmt.Errorf("reading the accepted agent documents failed; the previous ones stay in force: %w", err))
	timer := time.NewTimer(r.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// read returns the documents, and the value of the index or nil. A document whose record is lost is
// reported and left out.
func (r *Registry) read(ctx context.Context) (documents []Document, value []byte, err error) {
	for {
		record, err := r.options.Store.Get(ctx, r.key)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		current, err := readIndex(record.Value)
		if err != nil {
			return nil, nil, err
		}
		documents, lost, err := r.readDocuments(ctx, current)
		switch {
		case err != nil:
			return nil, nil, err
		case len(lost) > 0 && !bytes.Equal(value, record.Value):
			value = record.Value // they may have been replaced after the index was read: compare once more
			continue
		case len(lost) > 0:
			r.options.Report(fmt.Errorf("the store has lost the accepted documents of these agents; they must be accepted again: %s", strings.Join(lost, ", ")))
		}
		return documents, record.Value, nil
	}
}

// readDocuments returns the documents of the index, and the names of those that have no record.
func (r *Registry) readDocuments(ctx context.Context, current *index) (documents []Document, lost []string, err error) {
	for i := range current.Documents {
		e := &current.Documents[i]
		record, err := r.options.Store.Get(ctx, r.documentKey(e))
		switch {
		case errors.Is(err, store.ErrNotFound):
			lost = append(lost, e.Name)
		case err != nil:
			return nil, nil, fmt.Errorf("the document of agent %s: %w", e.Name, err)
		default:
			documents = append(documents, Document{*e, record.Value})
		}
	}
	return documents, lost, nil
}

// renew extends the lifetime of all records if that was not done for a long time.
func (r *Registry) renew(ctx context.Context) {
	current, err := r.index(ctx)
	if err != nil || len(current.Documents) == 0 || r.options.Now().Sub(current.Renewed) < renewAge {
		return // Watch reports errors
	}
	for i := range current.Documents {
		e := &current.Documents[i]
		err = errors.Join(err, r.options.Store.Update(ctx, r.documentKey(e), func(old store.Record) (store.Change, error) {
			if old.Value == nil {
				return store.Change{Delete: true}, nil // it is lost, see read
			}
			return store.Change{TTL: TTL}, nil
		}))
	}
	if err == nil {
		err = r.change(ctx, func(current *index) error {
			current.Renewed = r.options.Now().UTC()
			return nil
		})
	}
	if err != nil && ctx.Err() == nil {
		r.options.Report(fmt.Errorf("extending the lifetime of the accepted agent documents: %w", err))
	}
}
