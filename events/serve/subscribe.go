package serve

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/events"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/lease"
)

// Limits of subscriptions. A user has at most 2 % of all.
const (
	maxSubscriptions = 1000
	maxPerUser       = 20
	maxURL           = 2 << 10 // bytes
	minTTL           = 5 * time.Minute
	defaultTTL       = time.Hour
	maxTTL           = 24 * time.Hour
	secretOverlap    = 24 * time.Hour // in which both secrets sign after a change
)

// A Subscription is the record of a webhook that gets events.
type Subscription struct {
	ID       string        `json:"id"`
	User     string        `json:"user"`
	Name     string        `json:"name"`            // of the type
	Receiver string        `json:"receiver"`        // scheme and host of its URL: the path may be a secret
	Sealed   string        `json:"sealed,omitzero"` // a target; "" outside of the store
	Expires  time.Time     `json:"expires"`
	Cursor   events.Cursor `json:"cursor"` // the receiver has accepted the events before it, or they were given up
	Status   Status        `json:"status"`
}

// entry is what the index of an endpoint has of a subscription. The index is one record, so that the limits hold on all nodes.
type entry struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Expires time.Time `json:"expires"`
	Changed time.Time `json:"changed"` // by other than deliveries
}

// Status is the deliveryStatus of MCP Events.
type Status struct {
	Active       bool      `json:"active"`
	LastDelivery time.Time `json:"lastDeliveryAt,omitzero"`
	LastError    string    `json:"lastError,omitzero"`
	FailedSince  time.Time `json:"failedSince,omitzero"`
}

// target is what is secret of a Subscription: who has sent which params last.
type target struct {
	User     *identity.User `json:"user"`
	Params   jsontext.Value `json:"params"`
	Secrets  []string       `json:"secrets"` // the current one, and the one before
	Replaced time.Time      `json:"replaced,omitzero"`
}

// subscriptions are those of an endpoint in the store, and their index.
type subscriptions struct {
	store    store.Store
	name     string
	index    *lease.List[entry]
	indexKey string
}

func (s *Server) records(st store.Store) *subscriptions {
	isOver := func(e *entry) bool { return time.Now().After(e.Expires) }
	return &subscriptions{st, s.Name, &lease.List[entry]{Store: st, TTL: maxTTL, IsOver: isOver}, "event-receivers/" + s.Name}
}

// key returns the key of a subscription.
func (r *subscriptions) key(id string) string { return "event-subscriptions/" + r.name + "/" + id }

// id returns the ID of the subscription of a receiver.
func (r *receiver) id() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{r.user.ID, r.Delivery.URL, r.Name, string(r.Arguments)}, "\x00")))
	return "sub_" + hex.EncodeToString(sum[:16])
}

// checkDelivery checks where events are to be delivered.
func (r *receiver) checkDelivery() error {
	if mode := text.Cut(r.Delivery.Mode, text.MaxQuoted); mode != "webhook" || r.Sealer == nil {
		return r.refuse(unsupported, map[string]any{"feature": "delivery", "value": mode}, "the delivery mode %q is not supported", mode)
	}
	u, err := url.Parse(r.Delivery.URL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || len(r.Delivery.URL) > maxURL {
		return invalid("params.delivery.url must be an https URL of at most %d bytes, without user and fragment", maxURL)
	}
	if key := keyOf(r.Delivery.Secret); len(key) < 24 || len(key) > 64 {
		return invalid("params.delivery.secret must be whsec_ and 24 to 64 bytes in base64")
	}
	return nil
}

// keyOf returns the key of a secret; nil if it has none.
func keyOf(secret string) []byte {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if !ok || err != nil {
		return nil
	}
	return key
}

// Subscribe serves events/subscribe, which is also the refresh of a subscription. A new receiver must first show that it wants events.
func (s *Server) Subscribe(ctx context.Context, user *identity.User, raw []byte) (any, error) {
	r, err := s.receive(user, raw)
	if err == nil {
		err = r.checkDelivery()
	}
	if err != nil {
		return nil, err
	}
	after, truncated, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	st, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	id, now := r.id(), time.Now().UTC()
	records := s.records(st)
	known, err := records.get(ctx, id)
	isNew := errors.Is(err, store.ErrNotFound)
	if err != nil && !isNew {
		return nil, err
	}
	add := r.add(entry{id, user.ID, now.Add(lifetime(r.TTL)), now})
	if err := records.index.Check(ctx, records.indexKey, add); err != nil { // before the receiver gets a request
		return nil, err
	}
	to := target{User: user, Params: raw, Secrets: []string{r.Delivery.Secret}}
	if isNew || !known.Status.Active {
		if err := r.verify(ctx, id, &to); err != nil {
			return nil, err
		}
	}
	sub, err := records.update(ctx, id, func(known *Subscription) error {
		if known.ID == "" {
			u, _ := url.Parse(r.Delivery.URL) // checkDelivery has parsed it
			*known = Subscription{ID: id, User: user.ID, Name: r.Name, Receiver: u.Scheme + "://" + u.Host, Cursor: after}
		} else if was, err := s.unseal(known); err == nil && was.Secrets[0] != r.Delivery.Secret {
			to.Secrets, to.Replaced = []string{r.Delivery.Secret, was.Secrets[0]}, now
		} else if err == nil {
			to.Secrets, to.Replaced = was.Secrets, was.Replaced
		}
		if !known.Status.Active { // new, or suspended: the receiver has just responded
			known.Status = Status{LastDelivery: known.Status.LastDelivery}
		}
		secret, err := json.Marshal(to)
		known.Sealed, known.Expires, known.Status.Active = s.Sealer.Seal(secret, id), now.Add(lifetime(r.TTL)), true
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := records.index.Change(ctx, records.indexKey, "", add); err != nil {
		if isNew { // others have used up the limit meanwhile
			err = errors.Join(err, st.Delete(ctx, records.key(id)))
		}
		return nil, err
	}
	truncated = truncated && isNew // the cursor of a subscription that is known has no effect
	return map[string]any{"id": id, "refreshBefore": sub.Expires, "cursor": sub.Cursor, "truncated": truncated, "deliveryStatus": sub.Status}, nil
}

// lifetime returns for how long a subscription is granted: the longest time, if the client asks for no end.
func lifetime(asked jsontext.Value) time.Duration {
	if asked == nil {
		return defaultTTL
	}
	milliseconds, err := strconv.ParseInt(string(asked), 10, 32)
	if err != nil {
		return maxTTL
	}
	return min(max(time.Duration(milliseconds)*time.Millisecond, minTTL), maxTTL)
}

// update changes the record of a subscription, which is empty if there is none.
func (r *subscriptions) update(ctx context.Context, id string, change func(*Subscription) error) (sub *Subscription, err error) {
	err = r.store.Update(ctx, r.key(id), func(old store.Record) (c store.Change, err error) {
		if sub, err = r.decode(id, old.Value); err == nil {
			err = change(sub)
		}
		if err != nil {
			return c, err
		}
		value, err := json.Marshal(sub)
		return store.Change{Value: value, TTL: max(time.Until(sub.Expires), 0) + time.Minute, Owner: share.OwnerOf(sub.User, "")}, err
	})
	return sub, err
}

// get returns a subscription, or store.ErrNotFound.
func (r *subscriptions) get(ctx context.Context, id string) (*Subscription, error) {
	record, err := r.store.Get(ctx, r.key(id))
	if err != nil {
		return nil, err
	}
	return r.decode(id, record.Value)
}

func (r *subscriptions) decode(id string, value []byte) (*Subscription, error) {
	sub := new(Subscription)
	if value == nil {
		return sub, nil
	}
	return sub, stored.Decode("event subscriptions", r.key(id), value, sub)
}

func (s *Server) unseal(sub *Subscription) (to target, err error) {
	plain, err := s.Sealer.Unseal(sub.Sealed, sub.ID)
	if err == nil {
		err = json.Unmarshal(plain, &to)
	}
	return to, err
}

// add returns the change of the index that adds a subscription of the user, or replaces it, within the limits.
func (r *receiver) add(e entry) func([]entry) ([]entry, error) {
	return func(all []entry) ([]entry, error) {
		own := 0
		all = slices.DeleteFunc(all, func(other entry) bool { return other.ID == e.ID })
		for _, other := range all {
			if other.User == e.User {
				own++
			}
		}
		if own >= maxPerUser {
			return nil, r.refuse(exhausted, map[string]any{"limit": "subscriptions", "max": maxPerUser}, "you have %d subscriptions, the limit: unsubscribe from one", own)
		}
		if len(all) >= maxSubscriptions {
			return nil, r.refuse(exhausted, map[string]any{"limit": "subscriptions"}, "there are too many subscriptions; try again later")
		}
		return append(all, e), nil
	}
}

// Unsubscribe serves events/unsubscribe. A subscription that does not exist is no error.
func (s *Server) Unsubscribe(ctx context.Context, user *identity.User, raw []byte) (any, error) {
	r, err := s.receive(user, raw)
	if err != nil {
		return nil, err
	}
	st, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	id := r.id()
	_, err = s.records(st).remove(ctx, func(e entry) bool { return e.ID == id })
	return struct{}{}, err
}

// remove deletes subscriptions, and returns how many.
func (r *subscriptions) remove(ctx context.Context, match func(entry) bool) (n int, err error) {
	all, err := r.index.Get(ctx, r.indexKey)
	for _, e := range all {
		if match(e) && err == nil {
			err = r.store.Delete(ctx, r.key(e.ID))
			n++
		}
	}
	if err == nil && n > 0 {
		err = r.index.Change(ctx, r.indexKey, "", func(all []entry) ([]entry, error) { return slices.DeleteFunc(all, match), nil })
	}
	return n, err
}

// Subscriptions returns the subscriptions of a user, or of all users if user is "", without what is secret.
func (s *Server) Subscriptions(ctx context.Context, user string) (found []*Subscription, err error) {
	st, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	records := s.records(st)
	all, err := records.index.Get(ctx, records.indexKey)
	for i := 0; i < len(all) && err == nil; i++ {
		if user != "" && user != all[i].User {
			continue
		}
		var sub *Subscription
		if sub, err = records.get(ctx, all[i].ID); err == nil {
			sub.Sealed = ""
			found = append(found, sub)
		} else if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
	}
	slices.SortFunc(found, func(a, b *Subscription) int { return strings.Compare(a.ID, b.ID) })
	return found, err
}

// Export returns the subscriptions of a user.
func (s *Server) Export(ctx context.Context, _ store.Store, user string) (any, error) {
	return s.Subscriptions(ctx, user)
}

// Erase deletes the subscriptions of a user.
func (s *Server) Erase(ctx context.Context, st store.Store, user string) (int, error) {
	return s.records(st).remove(ctx, func(e entry) bool { return e.User == user })
}

// Redeliver delivers the events after a cursor to a subscription again, also if it is suspended.
func (s *Server) Redeliver(ctx context.Context, id string, after events.Cursor) error {
	st, err := s.Open(ctx)
	if err != nil {
		return err
	}
	records := s.records(st)
	if _, err := records.update(ctx, id, func(sub *Subscription) error {
		if sub.ID == "" {
			return store.ErrNotFound
		}
		sub.Cursor, sub.Status = after, Status{Active: true, LastDelivery: sub.Status.LastDelivery}
		return nil
	}); err != nil {
		return err
	}
	return records.index.Change(ctx, records.indexKey, "", func(all []entry) ([]entry, error) {
		for i := range all {
			if all[i].ID == id {
				all[i].Changed = time.Now().UTC()
			}
		}
		return all, nil
	})
}
