package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/archive"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/tools/lock"
)

// Auditor records what happens under a configuration in the archive of the audit. The zero value records nothing.
type Auditor struct {
	archive *archive.Archive
	logger  *zap.Logger

	mu      sync.Mutex
	digests []string // of the options of the app and its handlers
}

// provision loads the sinks of the archive.
func (a *Auditor) provision(ctx caddy.Context, app *App) (err error) {
	if app.Audit == nil {
		return nil
	}
	a.logger = app.logger
	options := sha256Of(app)
	if a.archive, err = archive.New(ctx, app.Audit, app.store.archive, app.logger); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	a.digests = append(a.digests, options)
	return archive.RegisterMetrics(ctx)
}

// Archive returns the archive. It is nil, which takes no entries, unless the option audit is set.
func (a *Auditor) Archive() *archive.Archive { return a.archive }

// AddDigest adds the options of a handler to the digest of the configuration. The handler calls it before it loads its modules.
func (a *Auditor) AddDigest(handler any) {
	if a.archive == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.digests = append(a.digests, sha256Of(handler))
}

// sha256Of returns the digest of the type and the JSON of a value.
func sha256Of(value any) string {
	options, _ := json.Marshal(value) // Caddy has read the options from JSON
	sum := sha256.Sum256(fmt.Appendf(options, "%T", value))
	return hex.EncodeToString(sum[:])
}

// start begins to deliver entries, and records the start of the configuration.
func (a *Auditor) start() {
	if a.archive == nil {
		return
	}
	a.archive.Start()
	a.mu.Lock()
	defer a.mu.Unlock()
	slices.Sort(a.digests) // Caddy provisions servers in a random order
	entry := archive.Entry{Type: archive.TypeConfiguration, Event: "started", Digest: sha256Of(a.digests)}
	if err := a.archive.Record(context.Background(), entry); err != nil {
		a.logger.Error("the start of the configuration is not in the audit archive", zap.Error(err))
	}
}

// ofGuards returns the archive for guards, or nil.
func (a *Auditor) ofGuards() engagement.Archive {
	if a.archive == nil {
		return nil
	}
	return guardArchive{a.archive}
}

// guardArchive gives the entries of guards to the archive.
type guardArchive struct{ *archive.Archive }

// Record implements engagement.Archive.
func (g guardArchive) Record(ctx context.Context, of *engagement.Ref, key string, position int64, entries []engagement.Entry) error {
	all := make([]archive.Entry, len(entries))
	for i := range entries {
		e := &entries[i]
		all[i] = archive.Entry{
			At: e.At, Type: archive.TypeCall, Event: e.Event, User: of.User.ID, Agent: of.Agent, Engagement: key, ID: of.ID,
			Position: position + int64(i) + 1, Call: e.Call, Name: e.Name, Status: e.Status, Kind: string(e.Kind), Rule: e.Rule, Why: e.Why,
			Side: string(e.Side), Review: e.Review, Reviewer: e.By, Verdict: e.Verdict, Comment: e.Comment,
			DecidedBy: e.DecidedBy.User, DecidedAs: e.DecidedBy.Entry,
		}
		if e.Event == engagement.EntryReview || e.Event == engagement.EntryDecided || e.Event == engagement.EntryOriginal || e.Event == engagement.EntryQuestion || e.Event == engagement.EntryDecision {
			all[i].Type = archive.TypeReview
		}
	}
	return g.Archive.Record(ctx, all...)
}

// recordApproval records which tools a changed lock file approves that were withheld before, and who has approved them in the console.
func (d *Document) recordApproval() {
	if d.Key.Lock == "" {
		return
	}
	content, err := os.ReadFile(d.Key.Lock)
	if err != nil {
		return // the load of the document reports it
	}
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	before, withheld, approver := d.lockDigest, d.withheld, d.approver.Swap(nil)
	d.lockDigest, d.withheld = digest, lock.Withheld(d.LockChanges())
	to := d.archive.Load()
	if to == nil || *to == nil || before == "" || before == digest {
		return
	}
	entry := archive.Entry{Type: archive.TypeTools, Event: "approved", Toolset: d.Key.Name, Digest: digest}
	for name := range withheld {
		if !d.withheld[name] {
			entry.Tools = append(entry.Tools, name)
		}
	}
	slices.Sort(entry.Tools)
	if approver != nil {
		entry.User = *approver
	}
	if err := (*to).Record(context.Background(), entry); err != nil {
		d.logger.Load().Error("an approval of tools is not in the audit archive", zap.String("toolset", d.Key.Name), zap.Error(err))
	}
}
