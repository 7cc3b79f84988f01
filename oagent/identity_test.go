package oagent

import "testing"

func TestIdentity(t *testing.T) {
	user, named, none := Identity{User: true}, Identity{Static: "reader"}, Identity{}
	for _, test := range []struct {
		rule        string
		user        bool
		static      string
		callerKnown bool
		want        Identity
	}{
		{"user_identity: the calling user's is used", true, "", true, user},
		{"user_identity: even if there is a static one", true, "reader", true, user},
		{"static_identity: without a calling user", true, "reader", false, named},
		{"static_identity: user_identity is False", false, "reader", true, named},
		{"static_identity: both", false, "reader", false, named},
		{"none: a user's is not there", true, "", false, none},
		{"none: a user's may not be used", false, "", true, none},
		{"none: neither", false, "", false, none},
	} {
		c := Capability{UserIdentity: test.user, StaticIdentity: test.static}
		if got := c.Identity(test.callerKnown); got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.rule, got, test.want)
		}
	}
}
