package elicit

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
)

// ErrCannotAsk is the error of requests to a client that cannot be asked.
var ErrCannotAsk = errors.New("the client's request has no session or does not accept a stream")

// A ClientError is the JSON-RPC error with which the client responded to a request of the server.
type ClientError struct{ Failure jsontext.Value }

func (e *ClientError) Error() string { return "the client returned an error" }

// askClient sends the API's requests one after the other to a client of a revision before
// 2026-07-28. It returns the results in a JSON object with the keys of the requests. If there are no
// results, the reply has a Failure with the reason.
func (c *call) askClient(requests []inputRequest) (jsontext.Value, Reply) {
	t := c.tool
	if lacking := neededFor(requests) &^ c.supported(); lacking != 0 {
		return nil, failed(t, tools.Unanswered, c.unsupportedMessage(lacking))
	}
	var responses strictjson.ObjectBuilder
	for i := range requests {
		r := &requests[i]
		params, err := adaptParams(r, c.Revision)
		if err != nil {
			return nil, failed(t, tools.Unanswered, fmt.Sprintf("the call of %s was not completed: %v", t.Name, err))
		}
		result, err := c.Ask(r.method, params)
		if err != nil {
			return nil, failed(t, tools.Unanswered, fmt.Sprintf("the call of %s was not completed: %s", t.Name, noResponseMessage(r.method, err)))
		}
		if result.Kind() != '{' {
			return nil, failed(t, tools.Unanswered, fmt.Sprintf("the call of %s was not completed: the result of %s from the client is %s, not an object",
				t.Name, r.method, strictjson.KindName(result.Kind())))
		}
		responses.Add(strictjson.Text(r.key), result)
	}
	if len(requests) == 0 {
		return nil, Reply{}
	}
	return responses.Close(), Reply{}
}

// AskAll sends requests that a round in the manner of 2026-07-28 returned to a client of an earlier
// revision, for the tool t. It returns the responses as an object with the keys of the requests.
func (r *Request) AskAll(t *tools.Tool, inputRequests jsontext.Value) (jsontext.Value, *tools.Failure) {
	c := call{Request: r, tool: t}
	requests, err := readInputRequests(inputRequests)
	if err != nil {
		return nil, MalformedNative(t, err)
	}
	responses, reply := c.askClient(requests)
	return responses, reply.Failure
}

// unsupportedMessage returns the failure message for capabilities that the client lacks.
func (c *call) unsupportedMessage(lacking protocol.Capabilities) string {
	if !c.Revision.Stateless() && c.Ask == nil {
		return fmt.Sprintf("%s needs input from the client (%s), but %v; open a session with initialize and accept text/event-stream", c.tool.Name, lacking, ErrCannotAsk)
	}
	return fmt.Sprintf("%s needs client capabilities that the client has not declared (%s) in revision %v", c.tool.Name, lacking, c.Revision)
}

// maxRefusal is how many bytes of a client's error message are passed on.
const maxRefusal = 1 << 10

// noResponseMessage returns the failure message for a request without a result.
func noResponseMessage(method string, err error) string {
	if refused, ok := errors.AsType[*ClientError](err); ok {
		return fmt.Sprintf("the client refused %s: %s", method, text.Cut(strictjson.Text(strictjson.MemberOf(refused.Failure, "message")), maxRefusal))
	}
	return fmt.Sprintf("no response to %s from the client: %v", method, err)
}
