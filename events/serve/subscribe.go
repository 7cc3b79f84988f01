package serve

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
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
	Lease    lease.Lease   `json:"lease,omitzero"`
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

// prefix is how the keys of all subscriptions begin. Their IDs follow.
func (s *Server) prefix() string { return "event-subscriptions/" + s.Name + "/" }

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
	all, err := s.list(ctx, st)
	id := r.id()
	key := s.prefix() + id
	to := target{User: user, Params: raw, Secrets: []string{r.Delivery.Secret}}
	if err == nil && all[key] == nil {
		err = r.checkLimits(all)
	}
	if err == nil && (all[key] == nil || !all[key].Status.Active) {
		err = r.verify(ctx, id, &to)
	}
	if err != nil {
		return nil, err
	}
	var sub Subscription
	err = s.update(st, key)(ctx, func(known *Subscription, _ *lease.Lease) error {
		if known.ID == "" {
			u, _ := url.Parse(r.Delivery.URL) // checkDelivery has parsed it
			*known = Subscription{ID: id, User: user.ID, Name: r.Name, Receiver: u.Scheme + "://" + u.Host, Cursor: after}
		} else if was, err := s.unseal(known); err == nil && was.Secrets[0] != r.Delivery.Secret {
			to.Secrets, to.Replaced = []string{r.Delivery.Secret, was.Secrets[0]}, time.Now().UTC()
		} else if err == nil {
			to.Secrets, to.Replaced = was.Secrets, was.Replaced
		}
		if !known.Status.Active { // new, or suspended: the receiver has just responded
			known.Status = Status{LastDelivery: known.Status.LastDelivery}
		}
		secret, err := json.Marshal(to)
		known.Sealed, known.Expires, known.Status.Active = s.Sealer.Seal(secret, id), time.Now().Add(lifetime(r.TTL)).UTC(), true
		sub = *known
		return err
	})
	s.changed(key)
	truncated = truncated && all[key] == nil // the cursor of a subscription that is known has no effect
	return map[string]any{"id": id, "refreshBefore": sub.Expires, "cursor": sub.Cursor, "truncated": truncated, "deliveryStatus": sub.Status}, err
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

// update returns what changes the record of a subscription, which is empty if there is none.
func (s *Server) update(st store.Store, key string) lease.Transaction[*Subscription] {
	return func(ctx context.Context, change func(*Subscription, *lease.Lease) error) error {
		return st.Update(ctx, key, func(old store.Record) (store.Change, error) {
			sub, err := decode(key, old.Value)
			if err == nil {
				err = change(sub, &sub.Lease)
			}
			if err != nil {
				return store.Change{}, err
			}
			value, err := json.Marshal(sub)
			return store.Change{Value: value, TTL: max(time.Until(sub.Expires), 0) + time.Minute, Owner: share.OwnerOf(sub.User, "")}, err
		})
	}
}

func decode(key string, value []byte) (*Subscription, error) {
	sub := new(Subscription)
	if value == nil {
		return sub, nil
	}
	return sub, stored.Decode("event subscriptions", key, value, sub)
}

// list returns the subscriptions by their keys.
func (s *Server) list(ctx context.Context, st store.Store) (map[string]*Subscription, error) {
	keys, err := st.Keys(ctx, s.prefix(), "", store.MaxRead)
	all := make(map[string]*Subscription, len(keys))
	for _, key := range keys {
		if strings.Contains(key[len(s.prefix()):], "/") {
			continue // it is of an endpoint below the path of this one
		}
		if record, err := st.Get(ctx, key); err == nil {
			if sub, err := decode(key, record.Value); err == nil {
				all[key] = sub
			}
		}
	}
	return all, err
}

func (s *Server) unseal(sub *Subscription) (to target, err error) {
	plain, err := s.Sealer.Unseal(sub.Sealed, sub.ID)
	if err == nil {
		err = json.Unmarshal(plain, &to)
	}
	return to, err
}

// checkLimits returns an error if the user cannot have a further subscription.
func (r *receiver) checkLimits(all map[string]*Subscription) error {
	own := 0
	for _, sub := range all {
		if sub.User == r.user.ID {
			own++
		}
	}
	if own >= maxPerUser {
		return r.refuse(exhausted, map[string]any{"limit": "subscriptions", "max": maxPerUser}, "you have %d subscriptions, the limit: unsubscribe from one", own)
	}
	if len(all) >= maxSubscriptions {
		return r.refuse(exhausted, map[string]any{"limit": "subscriptions"}, "there are too many subscriptions; try again later")
	}
	return nil
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
	key := s.prefix() + r.id()
	defer s.changed(key)
	return struct{}{}, st.Delete(ctx, key)
}

// Subscriptions returns the subscriptions of a user, or of all users if user is "", without what is secret or of nodes.
func (s *Server) Subscriptions(ctx context.Context, user string) (found []*Subscription, err error) {
	st, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.list(ctx, st)
	for _, sub := range all {
		if sub.Sealed, sub.Lease = "", (lease.Lease{}); user == "" || sub.User == user {
			found = append(found, sub)
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
	found, err := s.Subscriptions(ctx, user)
	for _, sub := range found {
		key := s.prefix() + sub.ID
		if err == nil {
			err = st.Delete(ctx, key)
		}
		s.changed(key)
	}
	return len(found), err
}

// Redeliver delivers the events after a cursor to a subscription again, also if it is suspended.
func (s *Server) Redeliver(ctx context.Context, id string, after events.Cursor) error {
	st, err := s.Open(ctx)
	if err != nil {
		return err
	}
	defer s.changed(s.prefix() + id)
	return s.update(st, s.prefix()+id)(ctx, func(sub *Subscription, _ *lease.Lease) error {
		if sub.ID == "" {
			return store.ErrNotFound
		}
		sub.Cursor, sub.Status = after, Status{Active: true, LastDelivery: sub.Status.LastDelivery}
		return nil
	})
}
