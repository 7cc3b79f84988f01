package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/tools"
)

// lastGood keeps a copy of the last version of a document that could be loaded, for a start of the process at which the document is
// broken. The copy is the text that the tools were built from, after its overlays, so the present filters, shapes and locks apply
// to it. Files that the document refers to are not in it: they cannot make a document fail. It is written when the store is in
// use, and does not open the store.
type lastGood struct {
	app     atomic.Pointer[App]           // the app that was started last; nil if none was
	pending atomic.Pointer[func() []byte] // returns the copy to be written; nil if it is written
}

// startsProcess reports whether the process loads its first configuration. It is false for a reload, and for commands that only
// provision a configuration, such as validate: these report what is broken. A module cannot see the difference elsewhere, since
// Caddy calls Start after all modules are provisioned.
func startsProcess() bool {
	return caddy.ActiveContext().Context == nil && bytes.Contains(debug.Stack(), []byte("github.com/caddyserver/caddy/v2.Load("))
}

// hasCopy reports whether a copy of the document is kept.
func (k DocumentKey) hasCopy() bool { return k.Kind == SourceFile || k.Kind == sourceURL }

// isUsableAlone reports whether a file is a valid document without the options of its toolset, which are then at fault.
func (k DocumentKey) isUsableAlone() bool {
	file, err := os.Open(k.Address)
	if err != nil {
		return false
	}
	defer file.Close()
	data, err := buffer.ReadLimited(file, int64(k.MaxDocument))
	if err == nil {
		_, err = tools.Build(data, tools.BuildOptions{Name: k.ShownName(), Location: k.Address, MaxDocument: k.MaxDocument})
	}
	return err == nil
}

// copyKey returns the key of the copy in the store. Options that apply to the copy do not change it.
func (k DocumentKey) copyKey() string {
	return fmt.Sprintf("document/%x", sha256.Sum256([]byte(DocumentKey{Name: k.Name, Kind: k.Kind, Address: k.Address, Overlays: k.Overlays}.String())))
}

// keepCopy makes the document, which was loaded, the copy.
func (d *Document) keepCopy(data []byte) {
	pack := sync.OnceValue(func() []byte {
		var packed bytes.Buffer // writing to it cannot fail
		w := gzip.NewWriter(&packed)
		w.ModTime = time.Now()
		_, _ = w.Write(data)
		_ = w.Close()
		return packed.Bytes()
	})
	d.lastGood.pending.Store(&pack)
	go d.saveCopy(d.lastGood.app.Load())
}

// saveCopy writes the pending copy when the store is in use. It returns without it when the configuration ends.
func (d *Document) saveCopy(a *App) {
	pack := d.lastGood.pending.Load()
	if pack == nil || a == nil {
		return
	}
	packed := (*pack)() // now, so that the text is not held until the store is in use
	select {
	case <-a.InUse():
	case <-a.Site.Ended():
		return
	}
	if !d.lastGood.pending.CompareAndSwap(pack, nil) {
		return // there is a later one
	}
	records, err := a.OpenStore(context.Background())
	if err == nil {
		err = records.Update(context.Background(), d.Key.copyKey(), func(old store.Record) (store.Change, error) {
			change := store.Change{Value: packed, TTL: store.MaxTTL, Evictable: true}
			if bytes.HasSuffix(old.Value, packed[len(packed)-8:]) { // the checksum and the size: RFC 1952, 2.3.1
				change.Value = nil // the store has the copy, so it only lives longer
			}
			return change, nil
		})
	}
	if logger := d.logger.Load().With(zap.String("toolset", d.Key.Name), zap.Int("bytes", len(packed))); err != nil {
		logger.Warn("the document was not copied to the store, so a start of the process needs the document itself", zap.Error(err))
	} else {
		logger.Debug("copied the document to the store")
	}
}

// restore makes the tools of the copy current and returns when it was written. Only failed calls it: see loader.Loader.Use.
func (d *Document) restore(a *App) (date time.Time, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	records, err := a.OpenStore(ctx)
	if err != nil {
		return date, err
	}
	record, err := records.Get(ctx, d.Key.copyKey())
	if err != nil {
		return date, err
	}
	r, err := gzip.NewReader(bytes.NewReader(record.Value))
	if err != nil {
		return date, err
	}
	data, err := buffer.ReadLimited(r, int64(d.Key.MaxDocument))
	if err != nil {
		return date, err
	}
	return r.ModTime, d.Loader.Use(ctx, data)
}
