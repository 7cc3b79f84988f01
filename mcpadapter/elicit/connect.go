package elicit

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// A call may need an account of the user at a third party (tools.Connection), which the user connects on a page of the gateway. How the client gets the
// address of the page depends on the revision (MCP, Elicitation, URL Mode):
//
//   - From 2026-07-28 on, in a request of a result of the type "input_required". That the user accepts only means that the page
//     was opened. If the account is still missing at the next call, the client is asked again; a task waits for it.
//   - In 2025-11-25, in the error -32042. The client repeats the call. When the user has connected the account, the session
//     gets notifications/elicitation/complete on its stream.
//   - In earlier revisions, and for clients without URL elicitation, in the text of the failure.

// connectionKey is the key of the request in inputRequests.
const connectionKey = "fairway_connection"

// connectionPoll is how often a task that waits for an account looks for it.
const connectionPoll = 3 * time.Second

// ElicitationLifetime is how long the server remembers a URL elicitation that is not complete. Its page works as long.
const ElicitationLifetime = 10 * time.Minute

// Connect returns the reply for the outcome of a plain tool whose call needs a Connection.
func (r *Request) Connect(caller tools.Caller, outcome tools.Outcome) (Reply, *protocol.Fault) {
	c := call{Request: r, caller: caller, tool: outcome.Tool}
	if r.Revision.Stateless() {
		var f *protocol.Fault
		if c.round.responses, f = readInputResponses(strictjson.MemberOf(r.Params, "inputResponses")); f != nil {
			return Reply{}, f
		}
		c.takeConnected()
	}
	reply, f := c.connect(Reply{Outcome: outcome})
	c.record(&reply)
	return reply, f
}

// AwaitsAccount reports whether a task waits until the user, who has opened the page, has connected the account.
func (r *Request) AwaitsAccount() bool {
	response := strictjson.MemberOf(strictjson.MemberOf(r.Params, "inputResponses"), connectionKey)
	return r.IsTask && r.Declared.Has(protocol.CanElicitURL) && strictjson.Text(strictjson.MemberOf(response, "action")) == "accept"
}

// takeConnected takes the response about the account out of the responses, which the API gets.
func (c *call) takeConnected() {
	response := strictjson.MemberOf(c.round.responses, connectionKey)
	if response == nil {
		return
	}
	c.connected = strictjson.Text(strictjson.MemberOf(response, "action"))
	rest := strictjson.AppendWithout([]byte{'{'}, c.round.responses, func(w *strictjson.Walk) bool { return w.Is(connectionKey) })
	if c.round.responses = append(rest, '}'); len(c.round.responses) == len("{}") {
		c.round.responses = nil
	}
}

// connect returns the reply for a call that was not made because the user must connect an account first.
func (c *call) connect(reply Reply) (Reply, *protocol.Fault) {
	needed := reply.Failure.Connection
	canOpen := c.Declared.Has(protocol.CanElicitURL) && (c.Revision.Stateless() || c.Revision.SupportsRichElicitation())
	switch {
	case c.connected == "decline" || c.connected == "cancel":
		reply.Failure = &tools.Failure{Kind: tools.Unauthorized, Message: fmt.Sprintf("%s was not called: the user did not connect the account (%s)", c.tool.Name, c.connected)}
		return reply, nil
	case !canOpen:
		return reply, nil
	case c.connected == "accept" && c.IsTask:
		reply.Failure.Pending = &tools.Pending{After: connectionPoll, Message: "waits until the user has connected the account: " + needed.URL}
		return reply, nil
	}
	params := strictjson.AppendString([]byte(`{"mode":"url","url":`), needed.URL)
	params = append(strictjson.AppendString(append(params, `,"message":`...), needed.Message), '}')
	if !c.Revision.Stateless() {
		f := protocol.Faultf(http.StatusOK, protocol.URLElicitationRequired, "%s", needed.Message)
		params = withElicitationID(params)
		f.Data = append(append([]byte(`{"elicitations":[`), params...), "]}"...)
		if c.Elicited != nil {
			c.Elicited(strictjson.Text(strictjson.MemberOf(params, "elicitationId")), needed)
		}
		return Reply{}, f
	}
	requests := append([]byte(`{"`+connectionKey+`":{"method":"`+MethodElicit+`","params":`), params...)
	members, f := c.inputRequired(jsontext.Value(append(requests, "}}"...)))
	return Reply{Outcome: tools.Outcome{Tool: c.tool}, InputRequired: members}, f
}
