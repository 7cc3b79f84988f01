package authserver

import (
	"strings"
	"time"
)

// UserSession is a session of a user as the operator sees it. It has no tokens.
type UserSession struct {
	Client   string    `json:"client,omitempty"`
	Resource string    `json:"resource,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
	User     User      `json:"user"`
	Until    time.Time `json:"until,omitzero"`
}

// SessionOf returns the session or the unused code in a record of the ledger, if it is one of the user and this server can read it.
func SessionOf(s *Server, user, key, value string) (*UserSession, bool) {
	var found session
	if !strings.HasPrefix(key, onceKey) && s.records.read(key, value, &found) == nil && found.User.Subject == user {
		return &UserSession{Client: found.Client, Resource: found.Resource, Scopes: found.Scopes, User: found.User}, true
	}
	return nil, false
}
