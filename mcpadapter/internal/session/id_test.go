package session

import (
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

var secret = []byte("a secret that two servers share")

// signerOf returns the signer for secrets, the current one first.
func signerOf(secrets ...[]byte) *Signer {
	return NewSigner(&Secrets{Sign: secrets, Seal: secrets})
}

func TestSession_is_signed(t *testing.T) {
	g, now := signerOf(secret), time.Unix(1_800_000_000, 0)
	id := g.Issue(protocol.V20250618, protocol.CanSample|protocol.CanListRoots, Digests{}, "ada", now.Add(time.Hour))
	if len(id) != IDLength {
		t.Errorf("%d characters: %s", len(id), id)
	}
	got, err := signerOf(secret).Open(id, "ada", now)
	if err != nil {
		t.Fatalf("another server with the secret: %v", err)
	}
	if got.Version != protocol.V20250618 || got.Client != protocol.CanSample|protocol.CanListRoots || !got.Expires.Equal(now.Add(time.Hour)) {
		t.Errorf("got %+v", got)
	}
	if again, _ := g.Open(g.Issue(protocol.V20250618, 0, Digests{}, "ada", now.Add(time.Hour)), "ada", now); again.Key == got.Key {
		t.Error("two sessions have the same key")
	}
	flipped := []byte(id)
	flipped[3] ^= 1
	for rule, c := range map[string]struct {
		signer   *Signer
		id, user string
		at       time.Time
		want     error
	}{
		"other-secret": {signerOf([]byte("another")), id, "ada", now, errForeign},
		"rotated":      {signerOf([]byte("another"), secret), id, "ada", now, nil},
		"rotated-away": {signerOf([]byte("another"), []byte("third")), id, "ada", now, errForeign},
		"other-user":   {g, id, "bob", now, errForeign},
		"no-user":      {g, id, "", now, errForeign},
		"changed":      {g, string(flipped), "ada", now, errForeign},
		"cut":          {g, id[:20], "ada", now, errForeign},
		"empty":        {g, "", "ada", now, errForeign},
		"not-base64":   {g, strings.Repeat("*", IDLength), "ada", now, errForeign},
		"long":         {g, strings.Repeat("A", 10_000), "ada", now, errForeign},
		"expired":      {g, id, "ada", now.Add(time.Hour), errExpired},
	} {
		t.Run(rule, func(t *testing.T) {
			if _, err := c.signer.Open(c.id, c.user, c.at); err != c.want {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// FuzzSessionID holds for any id but those that were issued: it is refused.
func FuzzSessionID(f *testing.F) {
	g := signerOf(secret)
	good := g.Issue(protocol.V20251125, 0, Digests{}, "ada", time.Now().Add(time.Hour))
	f.Add(good, "bob")
	f.Add(good[:len(good)-1]+"=", "ada")
	f.Add(strings.Repeat("A", IDLength), "")
	f.Fuzz(func(t *testing.T, id, user string) {
		if _, err := g.Open(id, user, time.Now()); err == nil && (id != good || user != "ada") {
			t.Errorf("%q of %q was accepted", id, user)
		}
		if plain, err := g.State.Unseal(id, user); err == nil {
			t.Errorf("%q was opened as %q", id, plain)
		}
	})
}
