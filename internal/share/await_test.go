package share_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/share"
)

func TestBound_Await(t *testing.T) {
	for name, c := range map[string]struct {
		returned time.Duration // when the units are returned
		canceled time.Duration // when the context ends
		taken    bool
		after    time.Duration
	}{
		"returned in time":  {300 * time.Millisecond, time.Hour, true, 300 * time.Millisecond},
		"returned too late": {2 * time.Second, time.Hour, false, time.Second},
		"context ends":      {2 * time.Second, 100 * time.Millisecond, false, 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := share.NewBound(share.Options{Name: "slots", Limit: 4})
				take(t, b, "user eve")
				take(t, b, "user bob")
				time.AfterFunc(c.returned, func() { b.Give("user eve", 1) })
				ctx, cancel := context.WithTimeout(t.Context(), c.canceled)
				defer cancel()
				began := time.Now()
				err := b.Await(ctx, "user ada", 1, time.Second)
				if taken, after := err == nil, time.Since(began); taken != c.taken || after != c.after {
					t.Errorf("%v after %s, want taken: %t after %s", err, after, c.taken, c.after)
				}
			})
		})
	}
}
