package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/tools"
)

// A Client calls the tools of one API for an agent (OCP 1.0, Client Libraries). It is safe
// for concurrent use. With each call it
//
//   - sends the agent's context in the OCP headers,
//   - merges the context of the response into the agent's context, and
//   - records the call in the history, unless the response has recorded it already.
//
// Calls that are never sent (unknown tools, invalid arguments) are not recorded. A
// Transport also sends and merges the context but does not record calls.
type Client struct {
	tools   *tools.Toolset
	invoker *tools.HTTPInvoker
	context *ocp.SharedContext
}

// ClientOptions configure a Client.
type ClientOptions struct {
	// Origin is the scheme and host of the API, such as "https://api.example.com". ""
	// means the Toolset's origin.
	Origin string

	// Context is the agent's context. If it is nil, the Client sends no OCP headers and
	// records no calls.
	Context *ocp.SharedContext

	// Transport sends the requests. Add credentials here. nil means http.DefaultTransport.
	Transport http.RoundTripper

	Timeout     time.Duration // for one call; 0 means DefaultCallTimeout
	MaxResponse int64         // bytes of a response; 0 means DefaultMaxResponse
}

// NewClient returns a Client for the tools. The Toolset's name becomes the prefix of the
// tool names in the history, as in "github.list_issues".
func NewClient(toolset *tools.Toolset, options ClientOptions) (*Client, error) {
	origin := cmp.Or(options.Origin, toolset.Origin)
	if origin == "" {
		return nil, fmt.Errorf("the document of %q does not say at which host the API is: set ClientOptions.Origin", toolset.Name)
	}
	invoker, err := tools.NewHTTPInvoker(origin)
	if err != nil {
		return nil, err
	}
	invoker.MaxResponse = options.MaxResponse
	invoker.Client.Transport = &ocp.Transport{Base: options.Transport, Context: options.Context}
	if options.Timeout > 0 {
		invoker.Client.Timeout = options.Timeout
	}
	return &Client{tools: toolset, invoker: invoker, context: options.Context}, nil
}

// Tools returns the API's tools.
func (c *Client) Tools() *tools.Toolset {
	return c.tools
}

// Call runs the named tool. Arguments is a Go value that package encoding/json encodes as
// an object: a map or a struct. Values of type []byte and json.RawMessage must already be
// JSON. Nil and empty values mean {}.
//
// If the call fails, the error is a *Failure, which errors.As finds. The result is not nil
// if the API responded, even with an error status. The result belongs to the caller and
// needs no Release.
//
// If a successful response does not match the schema of the document, the Note of the result says where. Many APIs
// deviate from their own documents, so it is no error. Build must have had the option ResponseSchemas; those of a
// Discovery have it.
func (c *Client) Call(ctx context.Context, t string, arguments any) (*tools.Result, error) {
	encoded, err := encodeArguments(arguments)
	if err != nil {
		return nil, &tools.Failure{Kind: tools.InvalidArguments, Message: fmt.Sprintf("invalid arguments for %s: %v", text.Cut(t, maxToolName), err)}
	}
	sent := c.context.Context()
	call := &recordedCall{invoker: c.invoker}
	outcome := tools.Execute(ctx, c.tools, t, encoded, call)
	if sent != nil && call.made {
		c.record(outcome, call, sent)
	}
	result := outcome.Result.Owned()
	if outcome.Failure != nil {
		return result, outcome.Failure
	}
	validate(outcome.Tool, result)
	return result, nil
}

// validate notes how a response deviates from the document.
func validate(t *tools.Tool, result *tools.Result) {
	media := result.MediaType()
	if t.Output.Schema == nil || len(result.Body) == 0 || !httpheader.IsJSON(media) && slices.Contains(t.Output.MediaTypes, media) {
		return
	}
	err := t.CheckResponse(result.Body)
	if invalid := strictjson.Check(result.Body); invalid != nil {
		err = fmt.Errorf("the response of %s is not JSON: %w", t.Operation(), invalid)
	}
	if err != nil {
		result.Note = strings.TrimSpace(result.Note + "\n" + err.Error())
	}
}

// maxToolName is the maximum length of a tool's name in an error message, in bytes.
const maxToolName = 128

// encodeArguments returns the JSON of the arguments of a call.
func encodeArguments(arguments any) ([]byte, error) {
	switch arguments := arguments.(type) {
	case nil:
		return nil, nil
	case []byte:
		return arguments, nil
	case json.RawMessage:
		return arguments, nil
	case jsontext.Value:
		return arguments, nil
	}
	return json.Marshal(arguments)
}

// record merges the context of the response and adds the call to the history, unless the
// response has recorded it already.
func (c *Client) record(outcome tools.Outcome, call *recordedCall, sent *ocp.Context) {
	status := 0
	var reported []ocp.HistoryEntry
	if outcome.Result != nil {
		status = outcome.Result.Status
		reported = c.context.MergeHeaders(outcome.Result.Header, sent, ocp.ReadOptions{})
	}
	operation := cmp.Or(outcome.Tool.Definition.OperationID, outcome.Tool.Name)
	name := outcome.Tool.Name
	if c.tools.Name != "" {
		name = c.tools.Name + "." + name
	}
	entry := ocp.CallEntry(call.at, call.endpoint, operation, name, status)
	for i := range reported {
		if isSameCall(&reported[i], &entry) {
			return
		}
	}
	c.context.Change(func(ocpContext *ocp.Context) { ocpContext.Record(entry) })
}

// isSameCall reports whether two entries describe the same API call. The agent and the API
// may have recorded it differently.
func isSameCall(e, other *ocp.HistoryEntry) bool {
	if e.Action != ocp.ActionAPICall {
		return false
	}
	if e.Operation != "" && other.Operation != "" {
		return e.Operation == other.Operation
	}
	return e.APIEndpoint != "" && strings.HasSuffix(other.APIEndpoint, e.APIEndpoint)
}

// recordedCall is an Invoker that remembers what it sent.
type recordedCall struct {
	invoker  *tools.HTTPInvoker
	made     bool
	at       time.Time
	endpoint string
}

// Invoke sends the call.
func (r *recordedCall) Invoke(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	endpoint, err := r.invoker.Address(call)
	if err != nil {
		return nil, err
	}
	r.made, r.at, r.endpoint = true, time.Now(), endpoint
	return r.invoker.Invoke(ctx, call)
}
