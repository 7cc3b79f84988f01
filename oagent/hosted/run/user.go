package run

import (
	"context"
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/store"
)

// UserData are the runs of a user, of all realms, what agents remember of them, and what they used on each day.
type UserData struct{}

// Export returns the states and the logs of the runs, what agents remember, and what was used.
func (UserData) Export(ctx context.Context, st store.Store, user string) (any, error) {
	type exported struct {
		State      jsontext.Value   `json:"state,omitzero"`
		Log        []jsontext.Value `json:"log,omitzero"`
		Remembered jsontext.Value   `json:"remembered,omitzero"`
		Used       jsontext.Value   `json:"used,omitzero"` // a DayUsage
	}
	all := []exported{}
	err := visitUser(ctx, st, user, func(key string, r store.Record, isRun bool) error {
		if _, ok := isLedger(key, r.Value); ok {
			all = append(all, exported{Used: r.Value})
			return nil
		}
		if !isRun {
			all = append(all, exported{Remembered: r.Value})
			return nil
		}
		e := exported{State: r.Value}
		for from := int64(0); from < r.Length; {
			page, err := st.Read(ctx, key, from, readAtOnce)
			if err != nil || len(page) == 0 {
				return err
			}
			for _, data := range page {
				e.Log = append(e.Log, data)
			}
			from += int64(len(page))
		}
		all = append(all, e)
		return nil
	})
	return all, err
}

// Erase deletes the runs, what agents remember, what was used, and notices that are not yet sent. A run in progress ends when
// it finds that its record is gone.
func (UserData) Erase(ctx context.Context, st store.Store, user string) (count int, err error) {
	err = visitUser(ctx, st, user, func(key string, _ store.Record, _ bool) error {
		count++
		return st.Delete(ctx, key)
	})
	return count, errors.Join(err, eraseNotices(ctx, st, user))
}

// visitUser calls visit with the records of the runs of a user, and with those of memories and of what was used.
func visitUser(ctx context.Context, st store.Store, user string, visit func(key string, r store.Record, isRun bool) error) error {
	memories := make(map[string]bool) // keys
	for _, prefix := range []string{stateKey, ledgerKey, realmKey} {
		err := store.Scan(ctx, st, prefix, func(key string, r store.Record) error {
			if day, ok := isLedger(key, r.Value); ok && day.User == user {
				return visit(key, r, false)
			}
			realm, id, ok := strings.Cut(key, stateKey)
			if !ok || !validID(id) {
				return nil
			}
			s, err := decodeState(id, r.Value)
			if err != nil || s.User.ID != user {
				return err
			}
			memories[realm+memoryOf(s.Agent, engagement.User{ID: user})] = true
			return visit(key, r, true)
		})
		if err != nil {
			return err
		}
	}
	for key := range memories {
		r, err := st.Get(ctx, key)
		if isNotFound(err) {
			continue
		}
		if err == nil {
			err = visit(key, r, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
