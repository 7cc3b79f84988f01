package engagement

import (
	"context"
	"strings"

	"github.com/fairwayhq/fairway/store"
)

// UserData are the Engagements of a user, and those in which an agent decides reviews of their calls.
type UserData struct{}

// Export returns the Engagements with the entries of their records.
func (UserData) Export(ctx context.Context, st store.Store, user string) (any, error) {
	type exported struct {
		*Summary
		Record []Entry `json:"record"`
	}
	all := []exported{}
	records := &Records{store: st}
	err := visitUser(ctx, st, user, func(key string, s *State, length int64) error {
		e := exported{Summary: s.summary(key, length)}
		for from := int64(0); from < length; {
			page, err := records.Log(ctx, key, from, MaxPage)
			if err != nil || len(page) == 0 {
				return err
			}
			e.Record, from = append(e.Record, page...), from+int64(len(page))
		}
		all = append(all, e)
		return nil
	})
	return all, err
}

// Erase deletes the Engagements and their records.
func (UserData) Erase(ctx context.Context, st store.Store, user string) (count int, err error) {
	err = visitUser(ctx, st, user, func(key string, _ *State, _ int64) error {
		count++
		return st.Delete(ctx, keyPrefix+key)
	})
	return count, err
}

// visitUser calls visit with the Engagements of a user, and then with those that review them.
func visitUser(ctx context.Context, st store.Store, user string, visit func(key string, s *State, length int64) error) error {
	own := make(map[string]bool)
	if err := store.Scan(ctx, st, keyPrefix+userDigits(user), func(key string, r store.Record) error {
		s, err := decodeState(key, r.Value)
		if err != nil || s.User.ID != user {
			return err
		}
		key = strings.TrimPrefix(key, keyPrefix)
		own[key] = true
		return visit(key, s, r.Length)
	}); err != nil {
		return err
	}
	return store.Scan(ctx, st, keyPrefix, func(key string, r store.Record) error {
		s, err := decodeState(key, r.Value)
		if err != nil || s.Reviewed == "" || !own[s.Reviewed] {
			return err
		}
		return visit(strings.TrimPrefix(key, keyPrefix), s, r.Length)
	})
}
