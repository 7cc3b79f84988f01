package oagent

import (
	"context"

	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// archiveOf returns the archive for guards, or nil without a recorder.
func archiveOf(recorder audit.Recorder) engagement.Archive {
	if recorder == nil {
		return nil
	}
	return guardArchive{recorder}
}

// guardArchive gives the entries of guards to the archive.
type guardArchive struct{ audit.Recorder }

// Record implements engagement.Archive.
func (g guardArchive) Record(ctx context.Context, of *engagement.Ref, key string, position int64, entries []engagement.Entry) error {
	all := make([]audit.Entry, len(entries))
	for i := range entries {
		e := &entries[i]
		all[i] = audit.Entry{
			At: e.At, Type: audit.TypeCall, Event: e.Event, User: of.User.ID, Agent: of.Agent, Engagement: key, ID: of.ID,
			Position: position + int64(i) + 1, CallID: e.CallID, Call: e.Call, Name: e.Name, Status: e.Status, Kind: string(e.Kind), Rule: e.Rule, Why: e.Why, Would: audit.Would(e.Would),
			Side: string(e.Side), Review: e.Review, Reviewer: e.By, Verdict: e.Verdict, Comment: e.Comment,
			DecidedBy: e.DecidedBy.User, DecidedAs: e.DecidedBy.Entry,
		}
		if e.Event == engagement.EntryReview || e.Event == engagement.EntryDecided || e.Event == engagement.EntryOriginal || e.Event == engagement.EntryQuestion || e.Event == engagement.EntryDecision {
			all[i].Type = audit.TypeReview
		}
	}
	return g.Recorder.Record(ctx, all...)
}
