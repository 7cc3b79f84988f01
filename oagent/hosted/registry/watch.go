package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

const (
	retryPause    = time.Second         // after an error of the store
	renewInterval = 24 * time.Hour      // between two checks of the age of the documents
	renewAge      = 14 * 24 * time.Hour // after which their lifetime is extended
)

// Watch calls changed once at the start, and after each change of the documents on this node or
// another. If changed returns an error, it is called again after a pause. Watch returns when ctx
// ends. If the store fails, it tries again.
func (r *Registry) Watch(ctx context.Context, changed func(context.Context) error) {
	var seen []byte
	for first := true; ctx.Err() == nil; {
		value, err := r.indexValue(ctx)
		if err == nil && (first || !bytes.Equal(value, seen)) {
			err = changed(ctx)
		}
		if err == nil {
			seen, first = value, false
			r.renew(ctx)
			_, _, err = lease.Wait(ctx, r.options.Store, r.key, seen, time.Now().Add(renewInterval))
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) { // a list that has expired is a change
			r.failed(ctx, err)
		}
	}
}

// indexValue returns the value of the index record, nil if there is none.
func (r *Registry) indexValue(ctx context.Context) ([]byte, error) {
	record, err := r.options.Store.Get(ctx, r.key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return record.Value, err
}

// failed reports an error and waits before the next attempt.
func (r *Registry) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.options.Report(fmt.Errorf("reading the accepted agent documents failed; the previous ones remain in use: %w", err))
	select {
	case <-time.After(r.pause):
	case <-ctx.Done():
	}
}

// Documents returns the accepted documents, ordered by name. A document whose record is lost is
// reported and omitted.
func (r *Registry) Documents(ctx context.Context) ([]Document, error) {
	for seen := []byte(nil); ; {
		value, err := r.indexValue(ctx)
		if err != nil {
			return nil, err
		}
		current, err := readIndex(value)
		if err != nil {
			return nil, err
		}
		documents, lost, err := r.readDocuments(ctx, current)
		switch {
		case err != nil:
			return nil, err
		case len(lost) > 0 && !bytes.Equal(seen, value):
			seen = value // they may have been replaced after the index was read: compare once more
			continue
		case len(lost) > 0:
			r.options.Report(fmt.Errorf("the store has lost the accepted documents of these agents; they must be accepted again: %s", strings.Join(lost, ", ")))
		}
		return documents, nil
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
			return store.Change{TTL: ttl}, nil
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
