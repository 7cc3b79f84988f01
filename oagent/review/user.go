package review

import (
	"context"
	"strings"

	"github.com/fairwayhq/fairway/store"
)

// UserData are the reviews of calls of a user.
type UserData struct{}

// Export returns the reviews of calls of a user, and those of others that the user has decided. The latter are without inputs and outputs.
func (UserData) Export(ctx context.Context, st store.Store, user string) (any, error) {
	all := []*Review{}
	err := store.Scan(ctx, st, reviewPath, func(key string, record store.Record) error {
		r, err := decodeReview(strings.TrimPrefix(key, reviewPath), record.Value)
		switch {
		case err != nil:
			return err
		case r.User.ID != user && r.DecidedBy.User == user:
			r.Inputs, r.Outputs, r.Edited, r.Changed, r.User.ID, r.User.Email, r.Engagement = nil, nil, nil, "", "", "", ""
		case r.User.ID != user:
			return nil
		}
		all = append(all, r)
		return nil
	})
	return all, err
}

// Erase deletes the reviews of calls of a user, their released results, and their entries in the lists of reviewers.
func (UserData) Erase(ctx context.Context, st store.Store, user string) (count int, err error) {
	for _, path := range []string{reviewPath, releasedPath} {
		err := store.Scan(ctx, st, path, func(key string, record store.Record) error {
			r, err := decodeReview(strings.TrimPrefix(key, reviewPath), record.Value)
			if err != nil || r.User.ID != user {
				return err
			}
			count++
			return st.Delete(ctx, key, originalPath+r.ID)
		})
		if err != nil {
			return count, err
		}
	}
	open := newLists(&Options{Store: st, TTL: store.MaxTTL - 2*reviewSlack})
	open.IsOver = func(s *Summary) bool { return s.User.ID == user }
	err = store.Scan(ctx, st, OpenPrefix, func(key string, _ store.Record) error {
		return open.Change(ctx, key, "", func(others []Summary) ([]Summary, error) { return others, nil })
	})
	if err != nil {
		return count, err
	}
	decided := newDecisions(&Options{Store: st, TTL: store.MaxTTL - 2*reviewSlack})
	decided.IsOver = func(d *Decided) bool { return d.User.ID == user || d.DecidedBy.User == user }
	return count, store.Scan(ctx, st, DecidedPrefix, func(key string, _ store.Record) error {
		return decided.Change(ctx, key, "", func(others []Decided) ([]Decided, error) { return others, nil })
	})
}
