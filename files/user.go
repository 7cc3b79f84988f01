package files

import (
	"context"
	"time"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/store"
)

// exported is what an export has of a file: not its content, and not its URL.
type exported struct {
	File
	State   string    `json:"state"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Export returns the descriptions of the files of a user, of all sites.
func (*Store) Export(ctx context.Context, st store.Store, user string) (any, error) {
	all := []exported{}
	err := visitUser(ctx, st, user, func(_ string, r *record) error {
		all = append(all, exported{r.File, r.State, time.Unix(r.Created, 0).UTC(), time.Unix(r.Until, 0).UTC()})
		return nil
	})
	return all, err
}

// Erase deletes the files of a user, of all sites. An upload in progress fails.
func (*Store) Erase(ctx context.Context, st store.Store, user string) (count int, err error) {
	err = visitUser(ctx, st, user, func(key string, _ *record) error {
		count++
		return st.Delete(ctx, key)
	})
	return count, err
}

func visitUser(ctx context.Context, st store.Store, user string, visit func(key string, r *record) error) error {
	return store.Scan(ctx, st, KeyPrefix, func(key string, found store.Record) error {
		r := new(record)
		if len(found.Value) == 0 {
			return nil // chunks of an upload in progress, which was erased
		}
		if err := stored.Decode("files", key, found.Value, r); err != nil || user == "" || r.Owner.User != user {
			return err
		}
		return visit(key, r)
	})
}
