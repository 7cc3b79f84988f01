package ocp

import (
	"context"
	"net/http"
	"sync"
)

// An Incoming is the OCP context of one message: its headers, and its session, which is
// decoded when it is first needed. It is safe for concurrent use.
type Incoming struct {
	Headers // must not be changed

	once      sync.Once
	context   *Context
	judgement Judgement
}

// ReadIncoming reads the OCP headers of a request or a response. If there are none, it
// returns nil and does not allocate.
func ReadIncoming(header http.Header, options ReadOptions) *Incoming {
	headers := ReadHeaders(header, options)
	if !headers.Present() {
		return nil
	}
	return &Incoming{Headers: headers}
}

// Context returns the context of the message: the session's context if it is usable, with
// the values of the headers taking precedence. It is nil unless both required headers are
// present. It is shared and must not be changed.
func (in *Incoming) Context() *Context {
	in.judge()
	return in.context
}

// Brief returns the context of the message like Context, but without the history, session
// metadata and API specifications. These are most of a long session, and Brief does not
// decode them.
func (in *Incoming) Brief() *Context {
	switch {
	case !in.Valid():
		return nil
	case in.Session == nil:
		return in.under(nil)
	case in.Session.options.Strict: // strict mode must decode the whole session
		c := in.Context().Clone()
		c.History, c.Session, c.APISpecs = nil, nil, nil
		return c
	}
	return in.under(in.Session.briefly())
}

// FromHeaders returns a context from the headers alone, without reading the session, if
// the headers determine all the given fields, which are named as in the context schema. It
// returns nil if the session must be read or the message is not valid.
func (in *Incoming) FromHeaders(fields []string) *Context {
	if !in.Valid() {
		return nil
	}
	for _, field := range fields {
		known := false
		switch field {
		case "context_id", "agent_type":
			known = true
		case "current_goal":
			known = in.CurrentGoal != ""
		case "user":
			known = in.User != ""
		case "workspace":
			known = in.Workspace != ""
		}
		if !known && in.Session != nil {
			return nil
		}
	}
	return in.under(nil)
}

// Judge returns the verdict on the session and its reasons, including disagreement with
// the headers. If the message has no session, the verdict is "".
func (in *Incoming) Judge() Judgement {
	in.judge()
	return in.judgement
}

func (in *Incoming) judge() {
	in.once.Do(func() {
		session := in.judgeSession()
		if !in.Valid() {
			return
		}
		in.context = in.under(session)
	})
}

// judgeSession sets the judgement and returns the session's context, or nil if the session
// is ignored.
func (in *Incoming) judgeSession() *Context {
	if in.Session == nil {
		for _, fault := range in.Faults {
			if fault.Field == HeaderName(HeaderSession) {
				in.judgement = Judgement{Ignored, []Fault{fault}}
			}
		}
		return nil
	}
	session, judgement := in.Session.Context()
	in.judgement = judgement
	return session
}

// under returns the session's context, overridden by the values of the headers.
func (in *Incoming) under(session *Context) *Context {
	c := &Context{}
	if session != nil {
		*c = *session
	}
	c.ContextID, c.AgentType = in.ContextID, in.AgentType
	c.CurrentGoal = first(in.CurrentGoal, c.CurrentGoal)
	c.User = first(in.User, c.User)
	c.Workspace = first(in.Workspace, c.Workspace)
	return c
}

type incomingKey struct{}

// ContextWithIncoming returns a context that carries the request's OCP context to later
// handlers.
func ContextWithIncoming(ctx context.Context, in *Incoming) context.Context {
	return context.WithValue(ctx, incomingKey{}, in)
}

// IncomingFromContext returns the OCP context of the request. It is nil if the request has
// no OCP headers or no handler has read them.
func IncomingFromContext(ctx context.Context) *Incoming {
	in, _ := ctx.Value(incomingKey{}).(*Incoming)
	return in
}

// FromContext returns the OCP context of the request that ctx belongs to, or nil if it has
// no valid one. It decodes the session if necessary. The Context is shared and must not be
// changed.
func FromContext(ctx context.Context) *Context {
	in := IncomingFromContext(ctx)
	if in == nil {
		return nil
	}
	return in.Context()
}
