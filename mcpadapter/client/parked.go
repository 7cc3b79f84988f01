package client

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

const (
	parkedPrefix = "fairway-parked-" // of the requestState of a parked call

	// maxParked is how many calls of one server wait for responses of clients, and maxParkedOfOwner how many of one owner.
	maxParked        = 1000
	maxParkedOfOwner = 16

	// parkedTime is how long a call waits for the responses of its client.
	parkedTime = 10 * time.Minute
)

// ErrNotParked means that the call that responses belong to does not wait for them: the time has passed, or the node was
// restarted, or the call waits on another node.
var ErrNotParked = errors.New("the call that waited for this response has ended, or it waits on another node: call the tool again")

func isParked(state string) bool { return strings.HasPrefix(state, parkedPrefix) }

// parkedCalls are the calls of a server that wait for the responses of their clients.
type parkedCalls struct {
	mu    sync.Mutex
	calls map[string]*exchange // by requestState
}

// park keeps a call until the response to a request of the server arrives. The state identifies it.
func (e *exchange) park(request message) (state string, err error) {
	p := &e.server.parked
	p.mu.Lock()
	defer p.mu.Unlock()
	own := 0
	for _, other := range p.calls {
		if other.owner == e.owner {
			own++
		}
	}
	if e.server.stopped.Err() != nil { // close has run, or waits for the lock
		return "", errStopping
	}
	if own >= maxParkedOfOwner || len(p.calls) >= maxParked {
		return "", errors.New("too many calls wait for responses of clients")
	}
	e.asked = request
	state = parkedPrefix + rand.Text()
	p.calls[state] = e
	time.AfterFunc(parkedTime, func() {
		if p.take(state, e.owner) != nil {
			e.abort()
		}
	})
	return state, nil
}

// take returns a parked call of the owner and removes it, or nil.
func (p *parkedCalls) take(state string, owner share.Owner) *exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.calls[state]
	if e == nil || e.owner != owner {
		return nil
	}
	delete(p.calls, state)
	return e
}

// close aborts all parked calls.
func (p *parkedCalls) close() {
	p.mu.Lock()
	calls := p.calls
	p.calls = make(map[string]*exchange)
	p.mu.Unlock()
	for _, e := range calls {
		e.abort()
	}
}

// resume passes the response of the client to the server and waits for the result of the parked call.
func (s *Server) resume(ctx context.Context, c *Call) (jsontext.Value, error) {
	e := s.parked.take(c.State, c.Owner)
	if e == nil {
		return nil, ErrNotParked
	}
	answer := refusal(e.asked.id, codeInternal, "the client did not respond")
	if result := strictjson.MemberOf(c.Responses, askedKey); result.Kind() == '{' {
		answer = response(e.asked.id, result)
	}
	if err := e.session.link.send(ctx, e.header, answer); err != nil {
		e.abort()
		return nil, err
	}
	return e.wait(ctx, c)
}

// askedKey is the key of the request of a parked call in inputRequests.
const askedKey = "request"

// inputRequired returns an InputRequiredResult with a request of the server.
func inputRequired(m *message, state string) jsontext.Value {
	var request, requests, result strictjson.ObjectBuilder
	request.Add("method", strictjson.AppendString(nil, m.method))
	if m.params != nil {
		request.Add("params", m.params)
	} else { // the official Go SDK requires them, although they are optional for roots/list
		request.Add("params", []byte("{}"))
	}
	requests.Add(askedKey, request.Close())
	result.Add("resultType", []byte(`"input_required"`))
	result.Add("inputRequests", requests.Close())
	result.Add("requestState", strictjson.AppendString(nil, state))
	return result.Close()
}

// refusalOf returns why a request of the server cannot be passed on to a client with these capabilities, "" if it can.
func refusalOf(m *message, capabilities jsontext.Value) string {
	declared := protocol.ReadCapabilities(capabilities)
	var needed protocol.Capabilities
	switch m.method {
	case "elicitation/create":
		needed = protocol.CanElicit
		if strictjson.Text(strictjson.MemberOf(m.params, "mode")) == "url" {
			needed = protocol.CanElicitURL
		}
	case "sampling/createMessage":
		needed = protocol.CanSample
		if strictjson.HasMember(m.params, "tools") {
			needed |= protocol.CanSampleTools
		}
	case methodListRoots:
		needed = protocol.CanListRoots
	default:
		return "the gateway does not serve the method " + m.method
	}
	if !declared.Has(needed) {
		return "the client of this call does not support " + needed.String()
	}
	return ""
}
