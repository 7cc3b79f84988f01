package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/lock"
	"github.com/fairwayhq/fairway/tools/search"
)

// LockChanges returns how the document's tools differ from the lock: changed and new ones, which are
// withheld, and those that are gone. It is nil without a lock.
func (d *Document) LockChanges() []lock.Change {
	if state := d.lockState.Load(); state != nil {
		return state.changes
	}
	return nil
}

// lockState is the result of comparing the tools of a document with its lock. It is immutable.
type lockState struct {
	changes []lock.Change
	current *lock.Lock // all tools of the document, approved or not; nil without changes
}

// LockDigest identifies the changes that LockChanges returns, "" without changes.
func (d *Document) LockDigest() string {
	if state := d.lockState.Load(); state != nil && len(state.changes) > 0 {
		return state.current.Digest(state.changes)
	}
	return ""
}

// ErrChangedSince reports that the tools or the lock have changed since someone has read the changes that they approve.
var ErrChangedSince = errors.New("the tools have changed since then")

// Approve writes the current version of the named tools to the lock file. Without names, it approves all changes.
// Seen is the LockDigest of the changes that the user has read. If there are others now, the error is
// ErrChangedSince. The tools are served within about a second, as after the command.
func (d *Document) Approve(user, seen string, names ...string) (approved int, err error) {
	d.approving.Lock()
	defer d.approving.Unlock()
	state := d.lockState.Load()
	if state == nil || len(state.changes) == 0 || state.current.Digest(state.changes) != seen {
		return 0, ErrChangedSince
	}
	pinned, err := lock.ReadFile(d.Key.Lock)
	if err != nil {
		return 0, ExplainLock(d.Key, err)
	}
	var left []lock.Change
	var chosen []string
	for i := range state.changes {
		if c := &state.changes[i]; len(names) == 0 || slices.Contains(names, c.Tool) {
			chosen = append(chosen, c.Tool)
		} else {
			left = append(left, *c)
		}
	}
	if len(chosen) == 0 {
		return 0, ErrChangedSince
	}
	d.approver.Store(&user)
	if err := pinned.Approve(state.current, chosen).WriteFile(d.Key.Lock); err != nil {
		d.approver.Store(nil)
		return 0, fmt.Errorf("writing the lock file: %w", err)
	}
	d.lockState.CompareAndSwap(state, &lockState{left, state.current})
	d.logger.Load().Info("tools were approved in the console", zap.String("user", user), zap.String("toolset", d.Key.Name), zap.String("lock", d.Key.Lock),
		zap.Int("count", len(chosen)), zap.Strings("tools", chosen[:min(len(chosen), maxLoggedNames)]))
	return len(chosen), nil
}

// withhold returns the toolset without the tools that the lock does not approve. If nothing is withheld, it
// returns the toolset itself.
func (d *Document) withhold(toolset *tools.Toolset) (*tools.Toolset, error) {
	if !d.Key.Withholds() {
		return toolset, nil
	}
	approved, changes, err := d.Key.Withhold(toolset)
	if err == nil {
		state := &lockState{changes: changes}
		if len(changes) > 0 {
			state.current = lock.Of(toolset)
		}
		d.lockState.Store(state)
	}
	return approved, err
}

// Withholds reports whether tools can be withheld: by a lock, or because their texts are suspicious.
func (k DocumentKey) Withholds() bool {
	return k.Lock != "" || k.server != nil && k.server.Withholds()
}

// Withhold returns the toolset without the tools that the lock does not approve, and how the tools
// differ from the lock. Without a lock, these are the tools of an MCP server that have suspicious texts. A lock
// approves such tools too.
func (k DocumentKey) Withhold(toolset *tools.Toolset) (*tools.Toolset, []lock.Change, error) {
	var pinned *lock.Lock
	if k.Lock == "" {
		if pinned = approvesUnsuspicious(toolset); pinned == nil {
			return toolset, nil, nil
		}
	} else {
		var err error
		if pinned, err = lock.ReadFile(k.Lock); err != nil {
			return nil, nil, ExplainLock(k, err)
		}
		if err := pinned.Check(toolset); err != nil {
			return nil, nil, err
		}
	}
	changes := pinned.Compare(toolset)
	withheld := lock.Withheld(changes)
	if len(withheld) == 0 {
		return toolset, changes, nil
	}
	approved := toolset.Only(func(t *tools.Tool) bool { return !withheld[t.Name] })
	approved.Withheld = withheld
	if toolset.Foreign {
		approved.Title, approved.Description = pinned.Server()
	}
	approved.Finder = search.NewFinder(approved.Tools())
	return approved, changes, nil
}

// ExplainLock adds to an error of a lock file how to fix it.
func ExplainLock(k DocumentKey, err error) error {
	if errors.Is(err, lock.ErrMissing) {
		err = fmt.Errorf("lock %w: create it with: %s", err, LockCommand(k))
	}
	return fmt.Errorf("toolset %q: %w", k.Name, err)
}

// LockCommand returns the command that approves the tools of a document.
func LockCommand(k DocumentKey) string {
	if k.Lock == "" {
		return "caddy tools lock --config <Caddyfile>, after you have set the option lock of the toolset"
	}
	if k.server != nil {
		return "caddy tools lock --config <Caddyfile> --toolset " + k.Name
	}
	return fmt.Sprintf("caddy tools lock --config <Caddyfile> (or: caddy tools lock %s --lock %s, with the options of the toolset)", text.RedactURL(k.Address), k.Lock)
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
		if c := &changes[i]; c.Kind != lock.New {
			lines = append(append(lines, c.Tool+" "+string(c.Kind)+":"), c.Lines...)
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
		zap.String("to_approve", LockCommand(d.Key)),
	}, changeFields(changes)...)
	if d.Key.Lock == "" {
		logger.Warn("tools of the MCP server with suspicious texts are withheld until a lock approves them", fields...)
		return
	}
	logger.Warn("tools differ from the lock; changed and new tools are withheld until they are approved", fields...)
}

// approvesUnsuspicious returns a lock that approves what has no suspicious texts, or nil if there are none.
func approvesUnsuspicious(set *tools.Toolset) *lock.Lock {
	suspect := make(map[string]bool)
	for _, w := range set.Report.Warnings {
		suspect[w.Suspect] = true
	}
	if delete(suspect, ""); len(suspect) == 0 {
		return nil
	}
	rest := set.Only(func(t *tools.Tool) bool { return !suspect[t.Name] })
	if suspect[lock.Instructions] {
		rest.Title, rest.Description = set.Name, ""
	}
	return lock.Of(rest)
}
