package stores

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/fairwayhq/fairway/store"
)

// userData is implemented by what keeps data about users in the store.
type userData interface {
	// Export returns the data about a user in a form for JSON, without secrets.
	Export(ctx context.Context, st store.Store, user string) (any, error)

	// Erase deletes the data about a user, and returns the number of records.
	Erase(ctx context.Context, st store.Store, user string) (int, error)
}

// loginData is implemented by userData that have the sessions of users.
type loginData interface {
	// LogOut ends the sessions of a user, and returns their number.
	LogOut(ctx context.Context, st store.Store, user string) (int, error)
}

// users finds the data about users in the store.
type users struct {
	open func(context.Context) (store.Store, error)

	mu   sync.Mutex
	data map[string]userData
}

// Add adds data about users. The name is that of its member in an export. Data that is added again under the same name replaces
// the earlier one.
func (u *users) Add(name string, data userData) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.data == nil {
		u.data = make(map[string]userData)
	}
	u.data[name] = data
}

// all returns the data of all handlers and sections.
func (u *users) all() map[string]userData {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.data)
}

// Export returns everything about a user, by the name of the data.
func (u *users) Export(ctx context.Context, user string) (map[string]any, error) {
	st, err := u.open(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[string]any)
	for name, data := range u.all() {
		if all[name], err = data.Export(ctx, st, user); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

// Erase deletes everything about a user except the audit archive, and returns the number of records by the name of the data.
// If it fails, some data may be deleted; the caller can repeat it.
func (u *users) Erase(ctx context.Context, user string) (map[string]int, error) {
	st, err := u.open(ctx)
	if err != nil {
		return nil, err
	}
	counts, all := make(map[string]int), u.all()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if counts[name], err = all[name].Erase(ctx, st, user); err != nil {
			return counts, fmt.Errorf("%s: %w", name, err)
		}
	}
	return counts, nil
}

// LogOut ends the sessions of a user, and returns the number of them by the name of the data.
func (u *users) LogOut(ctx context.Context, user string) (map[string]int, error) {
	st, err := u.open(ctx)
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int)
	for name, data := range u.all() {
		if sessions, ok := data.(loginData); !ok {
			continue
		} else if counts[name], err = sessions.LogOut(ctx, st, user); err != nil {
			return counts, fmt.Errorf("%s: %w", name, err)
		}
	}
	return counts, nil
}
