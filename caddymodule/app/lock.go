package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/lock"
	"github.com/fairwayhq/fairway/tools/search"
)

// LockChanges returns how the document's tools differ from the lock: changed and new ones, which are
// withheld, and those that are gone. It is nil without a lock.
func (d *Document) LockChanges() []lock.Change {
	if changes := d.lockChanges.Load(); changes != nil {
		return *changes
	}
	return nil
}

// withhold returns the toolset without the tools that the lock does not approve. Without a lock it
// returns the toolset itself.
func (d *Document) withhold(toolset *tools.Toolset) (*tools.Toolset, error) {
	if d.Key.Lock == "" {
		return toolset, nil
	}
	approved, changes, err := d.Key.Withhold(toolset)
	if err == nil {
		d.lockChanges.Store(&changes)
	}
	return approved, err
}

// Withhold returns the toolset without the tools that the lock does not approve, and how the tools
// differ from the lock.
func (k DocumentKey) Withhold(toolset *tools.Toolset) (*tools.Toolset, []lock.Change, error) {
	pinned, err := lock.ReadFile(k.Lock)
	if err != nil {
		return nil, nil, ExplainLock(k, err)
	}
	if err := pinned.Check(toolset); err != nil {
		return nil, nil, err
	}
	changes := pinned.Compare(toolset)
	withheld := lock.Withheld(changes)
	if len(withheld) == 0 {
		return toolset, changes, nil
	}
	approved := toolset.Only(func(t *tools.Tool) bool { return !withheld[t.Name] })
	approved.Withheld = withheld
	approved.Finder = search.NewFinder(approved.Tools())
	return approved, changes, nil
}

// ExplainLock adds to an error of a lock file how to fix it.
func ExplainLock(k DocumentKey, err error) error {
	if errors.Is(err, lock.ErrMissing) {
		err = fmt.Errorf("lock %w: create it with: %s", err, lockCommand(k))
	}
	return fmt.Errorf("toolset %q: %w", k.Name, err)
}

// lockCommand returns the command that approves the tools of a document.
func lockCommand(k DocumentKey) string {
	return fmt.Sprintf("caddy tools lock --config <Caddyfile> (or: caddy tools lock %s --lock %s, with the options of the toolset)", RedactURL(k.Address), k.Lock)
}

// Limits of what one log line says about changed tools.
const (
	maxLoggedNames = 20 // names of each kind of change
	maxLoggedDiff  = 40 // lines of differences
)

// changeFields returns log fields that count and name the changes, and show them.
func changeFields(changes []lock.Change) []zap.Field {
	var fields []zap.Field
	for _, part := range []struct {
		kind lock.Kind
		name string
	}{{lock.New, "appeared"}, {lock.Gone, "gone"}, {lock.Changed, "changed"}} {
		count, names := lock.Count(changes, part.kind, maxLoggedNames)
		fields = append(fields, zap.Int(part.name+"_count", count), zap.Strings(part.name, names))
	}
	var lines []string
	for i := range changes {
		if c := &changes[i]; c.Kind == lock.Changed {
			lines = append(append(lines, c.Tool+" changed:"), c.Lines...)
		}
	}
	if len(lines) > maxLoggedDiff {
		lines = append(slices.Clip(lines[:maxLoggedDiff]), fmt.Sprintf("… %d more lines; caddy tools diff prints all", len(lines)-maxLoggedDiff))
	}
	if len(lines) > 0 {
		fields = append(fields, zap.String("diff", strings.Join(lines, "\n")))
	}
	return fields
}

// logChanges logs how a reload of the document changed the tools.
func (d *Document) logChanges(logger *zap.Logger, toolset *tools.Toolset) {
	previous := d.previous
	d.previous = toolset
	if previous == nil {
		return
	}
	if changes := lock.Of(previous).Compare(toolset); len(changes) > 0 {
		logger.Info("document reload changed the tools", changeFields(changes)...)
	}
}

// logWithheld logs which tools of the document the lock does not approve.
func (d *Document) logWithheld(logger *zap.Logger) {
	changes := d.LockChanges()
	if len(changes) == 0 {
		return
	}
	fields := append([]zap.Field{
		zap.String("lock", d.Key.Lock),
		zap.Int("withheld", len(lock.Withheld(changes))),
		zap.String("to_approve", lockCommand(d.Key)),
	}, changeFields(changes)...)
	logger.Warn("tools differ from the lock; changed and new tools are withheld until they are approved", fields...)
}
