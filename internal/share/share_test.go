package share_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/share"
)

func TestOwnerOf(t *testing.T) {
	for _, c := range []struct{ user, address, want string }{
		{"ada", "203.0.113.7", "user ada"},
		{"", "203.0.113.7", "network 203.0.113.7/32"},
		{"", "::ffff:203.0.113.7", "network 203.0.113.7/32"},
		{"", "2001:db8:1:2:3:4:5:6", "network 2001:db8:1:2::/64"},
		{"", "2001:db8:1:2::ffff", "network 2001:db8:1:2::/64"},
		{"", "fe80::1%eth0", "network fe80::/64"},
		{"", "@", "network @"},
		{"", "", "network "},
		{strings.Repeat("a", 300), "", "user " + strings.Repeat("a", 200)},
	} {
		if got := share.OwnerOf(c.user, c.address); string(got) != c.want {
			t.Errorf("%q at %q: got %q, want %q", c.user, c.address, got, c.want)
		}
	}
}

// take takes units one by one until the owner is refused, and returns how many it got.
func take(t *testing.T, b *share.Bound, o share.Owner) (n int) {
	t.Helper()
	for n = range 10_000 {
		err := b.Take(o, 1)
		if err == nil {
			continue
		}
		if _, full := errors.AsType[*share.FullError](err); !full {
			t.Fatalf("error %v, want a FullError", err)
		}
		return n
	}
	t.Fatalf("%q is never refused", o)
	return 0
}

func TestBound_leaves_room_for_others(t *testing.T) {
	b := share.NewBound(share.Options{Name: "records", Limit: 1000})
	flooder := share.OwnerOf("flooder", "")
	if n := take(t, b, flooder); n != 750 {
		t.Errorf("the first owner got %d, want 750", n)
	}
	err := b.Take(flooder, 1)
	var full *share.FullError
	if !errors.As(err, &full) || !full.Share || full.Owner != flooder {
		t.Errorf("error %#v, want one about the share of %q", err, flooder)
	}
	if n := take(t, b, share.OwnerOf("bob", "")); n != 27 {
		t.Errorf("the second owner got %d, want a ninth of 250", n)
	}
	for i := range 30 {
		if n := take(t, b, share.OwnerOf(strconv.Itoa(i), "")); n == 0 {
			t.Fatalf("owner %d got nothing", i)
		}
	}
}

func TestBound_last_units_go_to_owners_without_any(t *testing.T) {
	b := share.NewBound(share.Options{Name: "runs", Limit: 4})
	if n := take(t, b, "user a"); n != 3 {
		t.Errorf("got %d, want 3", n)
	}
	if err := b.Take("user b", 1); err != nil {
		t.Errorf("the last unit: %v", err)
	}
	err := b.Take("user c", 1)
	var full *share.FullError
	if !errors.As(err, &full) || full.Share {
		t.Errorf("error %#v, want one about the limit", err)
	}
}

// TestBound_network_leaves_room_for_networks checks that one network cannot lock out the others.
func TestBound_network_leaves_room_for_networks(t *testing.T) {
	b := share.NewBound(share.Options{Name: "records", Limit: 1000})
	if n := take(t, b, share.OwnerOf("", "192.0.2.1")); n != 750 {
		t.Errorf("the first network got %d, want 750", n)
	}
	if n := take(t, b, share.OwnerOf("", "192.0.2.2")); n != 27 {
		t.Errorf("the second network got %d, want a ninth of 250", n)
	}
}

func TestBound_networks_leave_room_for_users(t *testing.T) {
	b := share.NewBound(share.Options{Name: "records", Limit: 1000})
	total := 0
	for i := range 300 {
		total += take(t, b, share.OwnerOf("", "2001:db8:0:"+strconv.FormatInt(int64(i), 16)+"::1"))
	}
	if total > 875 {
		t.Errorf("networks hold %d, want an eighth left for users", total)
	}
	if err := b.Take("user ada", 1); err != nil {
		t.Errorf("a user: %v", err)
	}
	var full *share.FullError
	if !errors.As(b.Take(share.OwnerOf("", "192.0.2.1"), 1), &full) {
		t.Fatal("a further network got a unit of the last eighth")
	}
	if o, found := b.Yields(full, func(share.Owner) bool { return true }); !found || !o.IsNetwork() {
		t.Errorf("%q has to yield, want a network", o)
	}
}

// A user who holds three quarters and many networks together leave room for another user.
func TestBound_user_and_networks_leave_room_for_users(t *testing.T) {
	b := share.NewBound(share.Options{Name: "records", Limit: 1000})
	total := take(t, b, "user eve")
	for i := range 300 {
		total += take(t, b, share.OwnerOf("", "2001:db8:0:"+strconv.FormatInt(int64(i), 16)+"::1"))
	}
	if total != 875 {
		t.Errorf("a user and networks hold %d, want an eighth left for other users", total)
	}
	if err := b.Take("user ada", 1); err != nil {
		t.Errorf("another user: %v", err)
	}
}

func TestBound_gateway_is_bound_by_the_limit_only(t *testing.T) {
	b := share.NewBound(share.Options{Limit: 100})
	if n := take(t, b, share.Gateway); n != 100 {
		t.Errorf("got %d, want 100", n)
	}
}

func TestBound_Give_makes_room(t *testing.T) {
	b := share.NewBound(share.Options{Limit: 100})
	if err := b.Take("user a", 75); err != nil {
		t.Fatal(err)
	}
	if err := b.Take("user a", 1); err == nil {
		t.Fatal("no share binds")
	}
	b.Give("user a", 10)
	if err := b.Take("user a", 10); err != nil {
		t.Error(err)
	}
	b.Give("user a", 75)
	if u := b.Usage(); u.Used != 0 || u.Largest != "" {
		t.Errorf("usage %+v, want none", u)
	}
}

func TestBound_warns_when_it_fills(t *testing.T) {
	var warnings []share.Usage
	b := share.NewBound(share.Options{Name: "streams", Limit: 100, Warn: func(u share.Usage) { warnings = append(warnings, u) }})
	_ = b.Take("user a", 60)
	_ = b.Take("user b", 20)
	if len(warnings) != 0 {
		t.Errorf("%d warnings at 80 %%", len(warnings))
	}
	_ = b.Take("user c", 1)
	_ = b.Take("user d", 1)
	if len(warnings) != 1 || warnings[0] != (share.Usage{Name: "streams", Used: 81, Limit: 100, Largest: "user a", LargestUsed: 60}) {
		t.Errorf("warnings %+v, want one about a", warnings)
	}
	b.Give("user b", 1)
	_ = b.Take("user b", 1)
	if len(warnings) != 1 {
		t.Error("a second warning although the use stayed above 75 %")
	}
	b.Give("user a", 60)
	_ = b.Take("user a", 60)
	if len(warnings) != 2 {
		t.Error("no second warning after the use fell")
	}
}

func TestBound_Yields(t *testing.T) {
	b := share.NewBound(share.Options{Limit: 100})
	for o, n := range map[share.Owner]int64{share.Gateway: 50, "user big": 30, "user other": 15, "network n": 5} {
		b.Give(o, -n)
	}
	for _, c := range []struct {
		owner, keeps, want share.Owner
		found              bool
	}{
		{"user new", "", "user big", true},            // the largest makes room for others
		{"user new", "user big", "user other", true},  // or the next, if the largest holds nothing that can be dropped
		{"user other", "", "user big", true},          // also if the other owner is above its share
		{"user big", "", "user big", true},            // an owner above its share yields itself
		{"user big", "user big", "user other", false}, // and no smaller owner yields for it
	} {
		var full *share.FullError
		if !errors.As(b.Take(c.owner, 1), &full) {
			t.Fatal("the limit does not hold")
		}
		o, found := b.Yields(full, func(o share.Owner) bool { return o != c.keeps })
		if found && o != c.want || found != c.found {
			t.Errorf("%q keeps, %q asks: %q yields (%t), want %q (%t)", c.keeps, c.owner, o, found, c.want, c.found)
		}
	}
	var full *share.FullError
	_ = errors.As(b.Take("user new", 1), &full)
	if o, found := b.Yields(full, func(o share.Owner) bool { return o == share.Gateway }); !found || o != share.Gateway {
		t.Errorf("%q yields, want the gateway as the last", o)
	}
}
