package hosted

import "testing"

// TestRealms_in_any_order provisions two servers in both orders, as Caddy does.
func TestRealms_in_any_order(t *testing.T) {
	first, second := &realm{"site", ":8080"}, &realm{"site", ":8081"}
	third := &realm{"site", ":8081"} // a later handler of the second server
	for _, order := range [][]*realm{{first, second, third}, {second, third, first}, {second, first, third}} {
		all := &realms{byName: map[string][]*realm{"site": order}}
		for r, want := range map[*realm]string{first: "site", second: "site-2", third: "site-3"} {
			if got := all.unique(r); got != want {
				t.Errorf("%v: got %s, want %s", order, got, want)
			}
		}
	}
}
