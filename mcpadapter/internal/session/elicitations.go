package session

import (
	"slices"
	"time"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// maxElicitations is the maximum number of URL elicitations of a server that are not complete. At the limit, the oldest is
// dropped: its client gets no notification, and finds out by calling again.
const maxElicitations = 10_000

// An Elicitation is a URL elicitation that a client got in the error -32042, and whose page the user has not completed.
type Elicitation struct {
	ID      string // elicitationId
	User    string
	Account string // names the third party where the user connects an account
	Until   time.Time

	session Key    // zero for a connection
	state   *State // of a connection
}

// Elicited remembers a URL elicitation of a session, or, if s is nil, of a connection with this state.
func (ls *States) Elicited(e Elicitation, s *Session, l *State) {
	e.state = l
	if s != nil {
		e.session, e.state = s.Key, nil // the state may end and begin again before the elicitation is complete
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := time.Now()
	ls.elicitations = slices.DeleteFunc(ls.elicitations, func(e Elicitation) bool { return now.After(e.Until) })
	if len(ls.elicitations) == maxElicitations {
		ls.elicitations = slices.Delete(ls.elicitations, 0, 1)
	}
	ls.elicitations = append(ls.elicitations, e)
}

// Complete notifies the sessions with elicitations for an account that the user has connected it (MCP 2025-11-25,
// Elicitation, Completion Notifications for URL Mode Elicitation). A session without an open stream gets no notification.
func (ls *States) Complete(user, account string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.elicitations = slices.DeleteFunc(ls.elicitations, func(e Elicitation) bool {
		if e.User != user || e.Account != account {
			return false
		}
		l := e.state
		if l == nil {
			l = ls.sessions[e.session]
		}
		if l != nil && time.Now().Before(e.Until) {
			b := strictjson.AppendString([]byte(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":`), e.ID)
			l.send(append(b, "}}"...))
		}
		return true
	})
}

// send sends a message on the latest stream of the client, if there is one.
func (l *State) send(message []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watchers) > 0 {
		l.watchers[len(l.watchers)-1].send(message)
	}
}
