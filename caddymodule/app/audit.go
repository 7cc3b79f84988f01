package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/tools/lock"
)

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
	to := d.recorder.Load()
	if to == nil || *to == nil || before == "" || before == digest {
		return
	}
	entry := audit.Entry{Type: audit.TypeTools, Event: "approved", Toolset: d.Key.Name, Digest: digest}
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
