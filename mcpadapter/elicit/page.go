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
//
// A result may also have a page (tools.Result.Page), which the user may open. The client gets the result in any case: a model that can
// do without the user has all that it needs there, and nothing waits for what the user does on the page.
//
//   - From 2026-07-28 on, the page is in a request as above. The result is in the requestState, and responds to the client's next request,
//     so that the call is made once.
//   - In 2025-11-25, the client gets the request elicitation/create first, and the result after its response.
//   - Other clients get only the result.

// pageKey is the key of the request in inputRequests. Clients and stored tasks have it from the time when only connections had pages.
const pageKey = "fairway_connection"

// pageAccepted tells the model that it need not give the user the URL.
const pageAccepted = "The user was shown the URL, and has agreed to open it."

// connectionPoll is how often a task that waits for an account looks for it.
const connectionPoll = 3 * time.Second

// ElicitationLifetime is how long the server remembers a URL elicitation that is not complete. Its page works as long.
const ElicitationLifetime = 10 * time.Minute

// Connect returns the reply for the outcome of a plain tool whose call needs a Connection.
func (r *Request) Connect(caller tools.Caller, outcome tools.Outcome) (Reply, *protocol.Fault) {
	c := call{Request: r, caller: caller, tool: outcome.Tool}
	reply, f := c.connect(Reply{Outcome: outcome})
	c.record(&reply)
	return reply, f
}

// AwaitsAccount reports whether a task waits until the user, who has opened the page, has connected the account.
func (r *Request) AwaitsAccount() bool {
	return r.IsTask && r.Declared.Has(protocol.CanElicitURL) && r.pageAction() == "accept"
}

// pageAction returns what the user has done when an earlier result of the type "input_required" had a page: "accept", "decline" or
// "cancel". It is "" if there was none, as always before 2026-07-28.
func (r *Request) pageAction() string {
	response := strictjson.MemberOf(strictjson.MemberOf(r.Params, "inputResponses"), pageKey)
	return strictjson.Text(strictjson.MemberOf(response, "action"))
}

// connect returns the reply for a call that was not made because the user must connect an account first.
func (c *call) connect(reply Reply) (Reply, *protocol.Fault) {
	needed, action := reply.Failure.Connection, c.pageAction()
	canOpen := c.Declared.Has(protocol.CanElicitURL) && (c.Revision.Stateless() || c.Revision.SupportsRichElicitation())
	switch {
	case action == "decline" || action == "cancel":
		reply.Failure = &tools.Failure{Kind: tools.Unauthorized, Message: fmt.Sprintf("%s was not called: the user did not connect the account (%s)", c.tool.Name, action)}
		return reply, nil
	case !canOpen:
		return reply, nil
	case action == "accept" && c.IsTask:
		reply.Failure.Pending = &tools.Pending{After: connectionPoll, Message: "waits until the user has connected the account: " + needed.URL}
		return reply, nil
	}
	params := pageParams(&needed.Page)
	if c.Revision.Stateless() {
		return c.elicit(pageKey, params)
	}
	f := protocol.Faultf(http.StatusOK, protocol.URLElicitationRequired, "%s", needed.Message)
	params = withElicitationID(params)
	f.Data = append(append([]byte(`{"elicitations":[`), params...), "]}"...)
	c.Elicited(strictjson.Text(strictjson.MemberOf(params, "elicitationId")), needed)
	return Reply{}, f
}

// offer asks the user once to open the page of a result, if it has one.
func (c *call) offer(r Reply) (Reply, *protocol.Fault) {
	action := c.pageAction()
	if page := r.Result.Page; page != nil && action == "" && c.supported().Has(protocol.CanElicitURL) {
		if c.Revision.Stateless() {
			c.round.Result = jsontext.Value(r.Result.Body).Clone()
			r.Release()
			return c.elicit(pageKey, pageParams(page))
		}
		response, _ := c.Ask(MethodElicit, withElicitationID(pageParams(page))) // without a response, the model gives the user the URL
		action = strictjson.Text(strictjson.MemberOf(response, "action"))
	}
	if action == "accept" {
		r.Result.Note = pageAccepted
	}
	return r, nil
}

// pageParams returns the params of the elicitation of a page.
func pageParams(p *tools.Page) jsontext.Value {
	params := strictjson.AppendString([]byte(`{"mode":"url","url":`), p.URL)
	return append(strictjson.AppendString(append(params, `,"message":`...), p.Message), '}')
}
