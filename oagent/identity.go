package oagent

// An Identity is the credentials with which a capability is used.
type Identity struct {
	User   bool   // the calling user's own
	Static string // those that are configured by this name; "" if none
}

// Identity decides with whose credentials the capability is used (OpenAgentSpec
// v1, Agent, user_identity and static_identity):
//
//	user_identity  static_identity  the caller is known  credentials
//	true           any              yes                  the user's
//	true           named            no                   the named
//	true           none             no                   none
//	false          named            any                  the named
//	false          none             any                  none
//
// Where there are none, nothing of the caller's goes upstream.
func (c *Capability) Identity(callerKnown bool) Identity {
	if c.UserIdentity && callerKnown {
		return Identity{User: true}
	}
	return Identity{Static: c.StaticIdentity}
}
