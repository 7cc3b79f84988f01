package mcpadapter

import (
	"net/http"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/task"
	"github.com/fairwayhq/fairway/tools"
)

// A Site is the environment of one request to the endpoint: the tools, how to call them, and who the
// caller is.
type Site struct {
	// Rest is the path below the endpoint: "" or "/" for the endpoint itself, "/sse" and "/message"
	// for HTTP+SSE.
	Rest string

	// Base is the endpoint's path as the client sees it. HTTP+SSE clients send their messages to a
	// path below it. Default: the request's path without Rest.
	Base string

	Host Host

	// Detach is like Host.Caller, but the Caller remains usable after the response of the request is
	// written. Nil means that the Callers of Host remain usable too.
	Detach func(*tools.Toolset) tools.Caller

	// Owner returns the fields that identify the owner of the tasks that the caller creates. Known is
	// false if other callers may have the same fields. Default: User.
	Owner func() (fields []string, known bool)

	// User is the authenticated user, "" if there is none. A session is valid only for the user who
	// started it.
	User string

	// Request is the client's request. Without a User, its credentials distinguish callers with the same idempotency key. It may be nil.
	Request *http.Request

	// Address is the client's address, by which streams are counted if there is no user. Default:
	// the address of the connection.
	Address string

	// Access is what the access token allows. Nil allows all tools.
	Access *Access

	// Login is the login that every caller of the endpoint needs. Nil means none, or unknown.
	Login *Login

	// Expires is when the credentials of the request expire. Streams and subscriptions that it
	// opened end then. The zero value means never. It has no effect over stdio, where the local user
	// who started the process provides its configuration.
	Expires time.Time
}

// taskOwner returns the owner of the tasks that the caller creates. It can see no others.
func (s *Site) taskOwner() task.Owner {
	owner, _ := s.identifiedOwner()
	return owner
}

// identifiedOwner returns the owner, and whether no other caller has the same. If others may, the caller
// must not list tasks (MCP 2025-11-25, Tasks, Security Considerations).
func (s *Site) identifiedOwner() (owner task.Owner, known bool) {
	if s.Owner != nil {
		return s.Owner()
	}
	return task.Owner{s.User}, s.User != ""
}

// A Host runs the tool calls of one request to the endpoint.
type Host interface {
	// Tools returns the current tools. It never returns nil.
	Tools() *tools.Toolset

	// Caller returns the Caller for these tools. A stream requests a new one for each message.
	Caller(*tools.Toolset) tools.Caller

	// Identity returns a value that identifies the caller to the API. Streams with equal identities
	// share polls of watched resources. If it is "", the stream shares none.
	Identity() string
}

// Login describes the authentication that the site requires of every caller. tools/list repeats it
// in securitySchemes (Apps SDK).
type Login = catalog.Login

// Access is what an access token allows.
type Access = tools.Access
