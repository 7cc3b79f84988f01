package authserver

import (
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/seal"
	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/stored"
)

// records are the sealed records of a Ledger.
type records struct {
	keys   []*keys // the first one is the current one; all are accepted
	sealer *seal.Sealer
	ledger ledger
	report func(message string, err error)
}

// failed reports an error of the Ledger.
func (r *records) failed(err error) *failure {
	r.report("the store of logins failed", err)
	return fail(codeUnavailable, "The gateway's store does not respond; try again.")
}

// errGone reports that a record is missing.
var errGone = errors.New("there is no such record")

// put writes a record of the owner.
func (r *records) put(ctx context.Context, key string, owner share.Owner, value any, lifetime time.Duration) error {
	sealed, err := r.sealed(kindRecord, key, value)
	if err != nil {
		return err
	}
	return r.ledger.Update(ctx, key, owner, func(string) (string, time.Duration, error) { return sealed, lifetime, nil })
}

// update changes a record. change modifies the value and returns the new lifetime; 0 deletes the record. The error is errGone if there is no record
// that this server can read.
func update[T any](ctx context.Context, r *records, key string, change func(*T) (time.Duration, error)) error {
	return r.ledger.Update(ctx, key, "", func(old string) (string, time.Duration, error) {
		value := new(T)
		if old == "" || r.read(key, old, value) != nil {
			return "", 0, errGone
		}
		lifetime, err := change(value)
		if err != nil || lifetime <= 0 {
			return "", 0, err
		}
		sealed, err := r.sealed(kindRecord, key, value)
		return sealed, lifetime, err
	})
}

const onceKey = "once/" // begins the keys of names that were used

// once reports whether the name is used for the first time within the lifetime. The owner is who uses it.
func (r *records) once(ctx context.Context, name string, owner share.Owner, lifetime time.Duration) (isFirst bool, err error) {
	key := onceKey + base64.RawURLEncoding.EncodeToString(digest(name))
	err = r.ledger.Update(ctx, key, owner, func(old string) (string, time.Duration, error) {
		isFirst = old == ""
		return "1", lifetime, nil
	})
	return isFirst, err
}

// sealed encrypts a value for a purpose. name binds the value to its place, such as the key of its record; it may be empty.
func (r *records) sealed(purpose kind, name string, value any) (string, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	return r.sealer.Seal(plain, string(purpose)+"\x00"+name), nil
}

// unsealed decrypts what sealed has returned.
func (r *records) unsealed(purpose kind, name, text string, value any) error {
	plain, err := r.sealer.Unseal(text, string(purpose)+"\x00"+name)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, value)
}

// read decrypts a record of the store. It reports one that cannot be read.
func (r *records) read(key, text string, value any) error {
	plain, err := r.sealer.Unseal(text, string(kindRecord)+"\x00"+key)
	if err != nil {
		return stored.Unreadable("sessions", key, err)
	}
	return stored.Decode("sessions", key, plain, value)
}

// refreshToken returns the token of a generation of a session: the session, the generation, and what authenticates both.
func (k *keys) refreshToken(id string, generation int) string {
	text := id + "." + strconv.Itoa(generation)
	return text + "." + base64.RawURLEncoding.EncodeToString(mac(k.refresh, text))
}

// readRefreshToken returns what refreshToken was called with. Only tokens that this server has made can name a session, so no one else can end one.
func (r *records) readRefreshToken(token string) (id string, generation int, ok bool) {
	id, rest, _ := strings.Cut(token, ".")
	number, _, _ := strings.Cut(rest, ".")
	generation, err := strconv.Atoi(number)
	if err != nil || len(token) > maxURI {
		return "", 0, false
	}
	for _, k := range r.keys {
		if hmac.Equal([]byte(token), []byte(k.refreshToken(id, generation))) {
			return id, generation, true
		}
	}
	return "", 0, false
}
