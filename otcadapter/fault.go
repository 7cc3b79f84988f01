package otcadapter

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A fault is the response to a request for which no tool ran: the request is invalid or
// incomplete, or the server is not ready.
type fault struct {
	status    int
	message   string // for the user and the model: what is wrong and how to fix it
	developer string // further details for a developer; "" for none

	toolkit  *toolkit       // toolkit of missing
	missing  []requirement  // requirements that the call did not provide
	problems []tool.Problem // of the input

	header, value string // a further header of the response; name is "" if there is none
}

// append appends the body of the response (OXP, Server Errors and Input Validation).
func (f *fault) append(b []byte, form *standard, developerMessages bool) []byte {
	b = append(b, `{"$schema":"`...)
	b = append(b, form.schema...)
	b = append(b, `","message":`...)
	b = wire.AppendString(b, f.message)
	if developerMessages && f.developer != "" {
		b = append(b, `,"developer_message":`...)
		b = wire.AppendString(b, f.developer)
	}
	if len(f.missing) > 0 {
		b = append(b, `,"missing_requirements":{`...)
		b = appendRequirementList(b, "authorization", f.missing, requireAuthorization, func(b []byte, need requirement) []byte {
			// OXP requires a url in every challenge, even if none is known.
			b = append(b, `,"url":`...)
			return wire.AppendString(b, f.toolkit.authorizationURL(need))
		})
		b = appendRequirementList(b, "secrets", f.missing, requireSecret, nil)
		b = append(b, '}')
	}
	if len(f.problems) > 0 {
		b = append(b, `,"parameter_errors":`...)
		b = appendParameterErrors(b, f.problems)
	}
	return append(b, '}')
}

// appendParameterErrors appends an object with the error of each parameter. Errors that concern
// no single parameter have the name "input".
func appendParameterErrors(b []byte, problems []tool.Problem) []byte {
	var names []string
	messages := make(map[string]string)
	for i, problem := range problems {
		if i == maxProblems {
			break
		}
		name, rest := splitPointer(problem.Path)
		message := text.Cut(problem.Message, maxProblem)
		if rest != "" {
			message = text.Cut(rest, maxProblem) + ": " + message
		}
		if earlier, known := messages[name]; known {
			message = earlier + "; " + message
		} else {
			names = append(names, name)
		}
		messages[name] = message
	}
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendString(b, name)
		b = append(b, ':')
		b = wire.AppendString(b, messages[name])
	}
	return append(b, '}')
}

// splitPointer splits a JSON Pointer into the parameter's name and the rest.
func splitPointer(path string) (name, rest string) {
	if path == "" {
		return "input", ""
	}
	name, rest, nested := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if nested {
		rest = "/" + rest
	}
	return text.Cut(strings.NewReplacer("~1", "/", "~0", "~").Replace(name), maxProblem), rest
}

func unknownEndpoint(endpoint string) *fault {
	return &fault{
		status:  http.StatusNotFound,
		message: "unknown endpoint " + quoted(endpoint) + "; the endpoints are GET /health, GET /tools, POST /call and POST /tools/call",
	}
}

func wrongMethod(method, endpoint, allow string) *fault {
	return &fault{
		status:  http.StatusMethodNotAllowed,
		message: "method " + quoted(method) + " is not allowed for " + endpoint + "; use " + allow,
		header:  "Allow",
		value:   allow,
	}
}

func notLoaded(wait func() time.Duration) *fault {
	f := unavailable("the tools are not available yet", wait())
	f.developer = "a document has not been loaded yet; the reason is in the gateway's log"
	return f
}

// unavailable tells the client to try again later.
func unavailable(what string, wait time.Duration) *fault {
	seconds := strconv.FormatInt(int64(max((wait+time.Second-1)/time.Second, 1)), 10)
	return &fault{
		status:  http.StatusServiceUnavailable,
		message: what + "; try again in " + seconds + " s",
		header:  "Retry-After",
		value:   seconds,
	}
}

func wrongContent(header, got, want string) *fault {
	f := &fault{
		status:  http.StatusUnsupportedMediaType,
		message: "unsupported " + header + " " + quoted(got) + " of the request body; use " + want,
	}
	if header == "Content-Encoding" {
		f.header, f.value = "Accept-Encoding", want
	}
	return f
}

func tooLarge(limit int64) *fault {
	return &fault{
		status:  http.StatusRequestEntityTooLarge,
		message: "the request body is larger than the limit of " + strconv.FormatInt(limit, 10) + " bytes; send less input",
	}
}

func badRequest(why string) *fault {
	return &fault{status: http.StatusBadRequest, message: "invalid request: " + why}
}

func unknownSchema(uri string) *fault {
	return &fault{
		status: http.StatusBadRequest,
		message: "unknown $schema " + quoted(uri) + "; known are " +
			strings.Join(knownSchemas, ", ") + "; without $schema the latest version applies",
	}
}

func unknownTool(failure *tool.Failure) *fault {
	return &fault{
		status:    http.StatusBadRequest,
		message:   failure.Message,
		developer: "GET /tools lists the ids of all tools",
	}
}

// invalidInput is the error of OXP for invalid input.
func invalidInput(failure *tool.Failure) *fault {
	return &fault{
		status:    http.StatusUnprocessableEntity,
		message:   failure.Message,
		developer: developerMessage(nil, failure),
		problems:  failure.Problems,
	}
}

func (k *toolkit) missingRequirements(tool *entry, missing []requirement) *fault {
	ids := make([]string, len(missing))
	for i, requirement := range missing {
		list := "authorization"
		if requirement.kind == requireSecret {
			list = "secrets"
		}
		ids[i] = strconv.Quote(requirement.id) + " in context." + list
	}
	return &fault{
		status:    http.StatusBadRequest,
		message:   tool.Name + " needs credentials that the call does not contain: " + joinNames(ids),
		developer: "GET /tools lists the requirements of each tool; the ids are the names of the document's security schemes",
		toolkit:   k,
		missing:   missing,
	}
}

// conflictingCallID is the error for a call_id that was used with other content. Its status is
// 400, because the standard does not define 409.
func conflictingCallID(callID string) *fault {
	return &fault{
		status: http.StatusBadRequest,
		message: "the call_id " + quoted(callID) + " belongs to another call: with another tool, input or context, or with other cookies of an unauthenticated caller; " +
			"use a new call_id for a new call",
	}
}

func invalidCredential(err error) *fault {
	return &fault{status: http.StatusBadRequest, message: err.Error()}
}

// insufficientScope responds as RFC 6750, section 3.1, requires.
func insufficientScope(tool string, scopes []string, metadata string) *fault {
	challenge := `Bearer error="insufficient_scope", scope="` + strings.Join(scopes, " ") + `"`
	if metadata != "" {
		challenge += `, resource_metadata="` + metadata + `"`
	}
	f := &fault{
		status:  http.StatusForbidden,
		message: "the access token lacks scopes that " + tool + " needs: " + joinNames(scopes),
		header:  "WWW-Authenticate",
		value:   challenge,
	}
	if strings.ContainsFunc(challenge, func(r rune) bool { return r < ' ' || r > '~' }) {
		f.header = ""
	}
	return f
}

// badCredentials is the fault for a caller whose own credentials the API has rejected.
func badCredentials(outcome *tool.Outcome, c *call) *fault {
	message := outcome.Failure.Message
	if supplied := c.grant.supplied; len(supplied) > 0 {
		ids := make([]string, len(supplied))
		for i, requirement := range supplied {
			ids[i] = strconv.Quote(requirement.id)
		}
		message += "; renew the credentials in the call's context: " + joinNames(ids)
	}
	f := &fault{
		status:    http.StatusUnauthorized,
		message:   message,
		developer: developerMessage(outcome.Tool, outcome.Failure),
	}
	if outcome.Result != nil {
		f.header, f.value = "WWW-Authenticate", c.credentials.conceal(outcome.Result.Header.Get("Www-Authenticate"))
	}
	return f
}

// quoted quotes and shortens text of the client for a message.
func quoted(text string) string {
	const longest = 128 // bytes
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return strconv.Quote(text)
}
