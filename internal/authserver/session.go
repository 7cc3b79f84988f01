package authserver

import (
	"context"
	"encoding/base64"
	"errors"
	"time"
)

// A session is one login of a user at one client. Its record has what a refresh needs. All refresh tokens of a session are one family: only the
// newest one works, and the use of an older one ends the session, because then someone has a copy (RFC 9700, section 4.14).
type session struct {
	Client     string   `json:"client"`
	Resource   string   `json:"resource"`
	Scopes     []string `json:"scopes,omitempty"` // that the client has asked for; a token gets those that the user may have
	User       User     `json:"user"`
	Tokens     Tokens   `json:"tokens"`
	Generation int      `json:"generation"` // of the refresh token that works
}

// Keys of records.
func codeKey(code string) string  { return "code/" + base64.RawURLEncoding.EncodeToString(digest(code)) }
func sessionKey(id string) string { return "session/" + id }

// openSession takes up the session that a code stands for. A second use of the code ends the session.
func (s *Server) openSession(ctx context.Context, code string, check func(*codeRecord) *failure) (id string, opened *session, f *failure) {
	id = random()
	replayed := ""
	err := update(ctx, s.records, codeKey(code), func(c *codeRecord) (time.Duration, error) {
		if c.Session != "" {
			replayed = c.Session
			return time.Until(c.Until), nil
		}
		if f = check(c); f != nil {
			return 0, nil // the code is void: someone may have tried to use one that he has seen
		}
		opened = &session{Client: c.Request.Client, Resource: c.Request.Resource, Scopes: c.Request.Scopes, User: c.User, Tokens: c.Tokens, Generation: 1}
		*c = codeRecord{Session: id, Until: time.Now().Add(s.options.SessionLifetime)}
		return s.options.SessionLifetime, nil
	})
	switch {
	case errors.Is(err, errGone):
		return "", nil, fail(codeGrant, "The code is unknown or has expired.")
	case err != nil:
		return "", nil, s.records.failed(err)
	case replayed != "":
		return "", nil, s.endSession(ctx, replayed, "a code was used twice; the session that it began has ended")
	case f != nil:
		return "", nil, f
	}
	if err := s.records.put(ctx, sessionKey(id), ownerOf(opened.User.Subject), opened, s.options.SessionLifetime); err != nil {
		return "", nil, s.records.failed(err)
	}
	return id, opened, nil
}

// endSession ends a session and returns the failure for the one who caused it.
func (s *Server) endSession(ctx context.Context, id, why string) *failure {
	err := s.records.ledger.Update(ctx, sessionKey(id), "", func(string) (string, time.Duration, error) { return "", 0, nil })
	if err != nil {
		return s.records.failed(err)
	}
	s.options.Report(why, nil)
	return fail(codeGrant, "The session has ended; log in again.")
}

// refresh asks the provider whether the user is still logged in, and replaces the refresh token. The resource may be empty; otherwise it must be that of
// the session.
func (s *Server) refresh(ctx context.Context, c *Client, id string, generation int, resource string) (*session, *failure) {
	var now session
	err := update(ctx, s.records, sessionKey(id), func(old *session) (time.Duration, error) {
		now = *old
		return s.options.SessionLifetime, nil
	})
	switch {
	case errors.Is(err, errGone):
		return nil, fail(codeGrant, "The session has ended; log in again.")
	case err != nil:
		return nil, s.records.failed(err)
	case now.Client != c.ID:
		return nil, fail(codeGrant, "The refresh token is for another client.")
	case now.Generation != generation:
		return nil, s.endSession(ctx, id, "a refresh token was used twice; its session has ended")
	case resource != "" && resource != now.Resource:
		return nil, fail(codeTarget, "The resource is not the one of the login.")
	}
	user, tokens, err := s.options.Provider.Refresh(ctx, &now.Tokens)
	switch {
	case errors.Is(err, ErrRefused):
		return nil, s.endSession(ctx, id, "the identity provider has ended the login of a session")
	case err != nil:
		s.options.Report("the identity provider cannot be reached", err)
		return nil, fail(codeUnavailable, "The identity provider cannot be reached; try again.")
	}
	isReused := false
	err = update(ctx, s.records, sessionKey(id), func(old *session) (time.Duration, error) {
		if isReused = old.Generation != generation; isReused {
			return 0, nil // two refreshes with one token at the same time
		}
		if old.Generation++; user != nil {
			old.User = *user
		}
		old.Tokens = *tokens
		now = *old
		return s.options.SessionLifetime, nil
	})
	switch {
	case errors.Is(err, errGone):
		return nil, fail(codeGrant, "The session has ended; log in again.")
	case err != nil:
		return nil, s.records.failed(err)
	case isReused:
		s.options.Report("a refresh token was used twice; its session has ended", nil)
		return nil, fail(codeGrant, "The session has ended; log in again.")
	case !s.options.Allow.allows(&now.User):
		return nil, s.endSession(ctx, id, "a user may not log in any more; the session has ended")
	}
	return &now, nil
}

// String says nothing about the tokens, so that they cannot get into a log.
func (t Tokens) String() string { return "tokens" }
