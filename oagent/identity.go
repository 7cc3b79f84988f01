package oagent

// Identity selects the credentials that a capability is called with.
type Identity struct {
	User   bool   // the calling user's own credentials
	Static string // name of configured credentials; "" if none
}

// Identity selects the credentials that the capability is called with (OpenAgentSpec v1,
// Agent, user_identity and static_identity):
//
//	user_identity  static_identity  the caller is known  credentials
//	true           any              yes                  the user's
//	true           named            no                   the named
//	true           none             no                   none
//	false          named            any                  the named
//	false          none             any                  none
//
// If the result is none, no credentials of the caller are sent to the upstream.
func (c *Capability) Identity(callerKnown bool) Identity {
	if c.UserIdentity && callerKnown {
		return Identity{User: true}
	}
	return Identity{Static: c.StaticIdentity}
}
