package authserver

import (
	"context"
	"encoding/base64"
	"errors"
	"time"
)

// A session is one login of a user at one client. Its record has what a refresh needs. All refresh tokens of a session are one family: only the
// newest one works, and the use of an older one ends the session, because then someone has a copy (RFC 9700, section 4.14). For repeatWait, the one before
// works too and gives the same refresh token, because a client may repeat a refresh whose response it has lost.
type session struct {
	Client     string   `json:"client"`
	Resource   string   `json:"resource"`
	Scopes     []string `json:"scopes,omitempty"` // that the client has asked for; a token gets those that the user may have
	User       User     `json:"user"`
	Tokens     Tokens   `json:"tokens"`
	Generation int      `json:"generation"` // of the refresh token that works

	// Replaced is when the refresh token of the generation before was used.
	Replaced time.Time `json:"replaced,omitzero"`

	// Lease is of the node that refreshes the tokens, until Renewing; "" if none does.
	Lease    string    `json:"lease,omitempty"`
	Renewing time.Time `json:"renewing,omitzero"`
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
	return errEnded
}

// refresh asks the provider whether the user is still logged in, and replaces the refresh token. It also returns the audiences of the new access token
// for the resource, see narrowed.
func (s *Server) refresh(ctx context.Context, c *Client, id string, generation int, resource string) (now *session, audiences []string, f *failure) {
	isReplay := false
	now, f = renewal{s, id}.run(ctx, func(old *session) (f *failure) {
		switch {
		case old.Client != c.ID:
			return fail(codeGrant, "The refresh token is for another client.")
		case old.Generation == generation+1 && time.Since(old.Replaced) < repeatWait:
			if audiences, f = s.targets.narrowed(old.Resource, resource); f == nil {
				f = errRepeated
			}
			return f
		case old.Generation != generation:
			isReplay = true
			return errEnded
		}
		audiences, f = s.targets.narrowed(old.Resource, resource)
		return f
	}, func(renewed *session) {
		renewed.Generation++
		renewed.Replaced = time.Now()
	})
	if f == errRepeated {
		return now, audiences, nil
	}
	if isReplay {
		return nil, nil, s.endSession(ctx, id, "a refresh token was used twice; its session has ended")
	}
	return now, audiences, f
}

const (
	// repeatWait is how long a refresh can be repeated.
	repeatWait = 10 * time.Second

	// renewWait limits the requests to the provider of one refresh.
	renewWait = 25 * time.Second

	// renewLease is the time in which only one node refreshes the tokens of a session. It is longer than renewWait.
	renewLease = 30 * time.Second

	// renewPoll is the interval in which others check whether a refresh has ended.
	renewPoll = 50 * time.Millisecond
)

var errEnded = fail(codeGrant, "The session has ended; log in again.")

// errRepeated says that a refresh is the same as the one before.
var errRepeated = fail(codeGrant, "The refresh token was used just now.")

// errCurrent ends an update without a change.
var errCurrent = errors.New("the session stays as it is")

// A renewal refreshes the provider's tokens of a session.
type renewal struct {
	server *Server
	id     string
}

// run asks the provider for new tokens, and stores them with the change. Of all nodes one at a time does so, since many providers accept a
// refresh token once: the others wait. Then check decides whether a session needs the refresh; the session is returned as it is with its failure, if not.
func (r renewal) run(ctx context.Context, check func(*session) *failure, change func(*session)) (*session, *failure) {
	s, id, lease := r.server, r.id, random()
	var now session
	var refused *failure
	for isBusy := true; isBusy; {
		err := update(ctx, s.records, sessionKey(id), func(old *session) (time.Duration, error) {
			now, refused = *old, check(old)
			if isBusy = time.Now().Before(old.Renewing); isBusy || refused != nil {
				return 0, errCurrent
			}
			old.Lease, old.Renewing = lease, time.Now().Add(renewLease)
			return s.options.SessionLifetime, nil
		})
		switch {
		case errors.Is(err, errGone):
			return nil, errEnded
		case refused != nil:
			return &now, refused
		case err != nil && !errors.Is(err, errCurrent):
			return nil, s.records.failed(err)
		}
		if isBusy {
			select {
			case <-ctx.Done():
				return nil, fail(codeUnavailable, "The login is being refreshed; try again.")
			case <-time.After(renewPoll):
			}
		}
	}
	// A client that disconnects does not end the refresh: the provider may have replaced its token already.
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewWait)
	defer cancel()
	user, tokens, refreshErr := s.options.Provider.Refresh(detached, &now.Tokens)
	if errors.Is(refreshErr, ErrRefused) {
		return nil, s.endSession(ctx, id, "the identity provider has ended the login of a session")
	}
	if user != nil && user.Subject != now.User.Subject { // OpenID Connect Core 1.0, section 12.2
		return nil, s.endSession(ctx, id, "the identity provider refreshed a login with the tokens of another user; the session has ended")
	}
	isLost := false
	err := update(ctx, s.records, sessionKey(id), func(old *session) (time.Duration, error) {
		if isLost = old.Lease != lease; isLost {
			return 0, errCurrent
		}
		old.Lease, old.Renewing = "", time.Time{}
		if refreshErr == nil {
			old.Tokens = *tokens
			if user != nil {
				old.User = *user
			}
			change(old)
		}
		now = *old
		return s.options.SessionLifetime, nil
	})
	switch {
	case errors.Is(err, errGone):
		return nil, errEnded
	case isLost:
		return nil, fail(codeUnavailable, "The refresh of the login took too long; try again.")
	case err != nil:
		return nil, s.records.failed(err)
	case refreshErr != nil:
		s.options.Report("the identity provider cannot be reached", refreshErr)
		return nil, fail(codeUnavailable, "The identity provider cannot be reached; try again.")
	case !s.options.Allow.allows(&now.User):
		return nil, s.endSession(ctx, id, "a user may not log in any more; the session has ended")
	}
	return &now, nil
}

// String says nothing about the tokens, so that they cannot get into a log.
func (t Tokens) String() string { return "tokens" }
