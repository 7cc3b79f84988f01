package otcadapter

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

// A fault is the response to a request for which no tool ran: the request is invalid or
// incomplete, or the server is not ready.
type fault struct {
	status    int
	message   string // for the user and the model: what is wrong and how to fix it
	developer string // further details for a developer; "" for none

	toolkit    *toolkit          // toolkit of missing
	missing    []requirement     // requirements that the call did not provide
	connection *tools.Connection // account that the user must connect first; nil if none is missing
	problems   []tools.Problem   // of the input

	header, value string // a further header of the response; name is "" if there is none
}

// faultBody is the body of the response to a fault (OXP, Server Errors and Input Validation).
type faultBody struct {
	Schema           string            `json:"$schema"`
	Message          string            `json:"message"`
	DeveloperMessage string            `json:"developer_message,omitempty"`
	Missing          *requirementLists `json:"missing_requirements,omitzero"`
	ParameterErrors  map[string]string `json:"parameter_errors,omitempty"`
}

// append appends the body of the response.
func (f *fault) append(b []byte, form *standard, developerMessages bool) []byte {
	body := faultBody{Schema: form.schema, Message: f.message, ParameterErrors: parameterErrors(f.problems)}
	if developerMessages {
		body.DeveloperMessage = f.developer
	}
	if len(f.missing) > 0 {
		body.Missing = listRequirements(f.missing, func(r requirement, to *listedRequirement) {
			url := f.toolkit.authorizationURL(r) // OXP requires one in every challenge, even if none is known
			to.URL = &url
		})
	}
	if f.connection != nil {
		body.Missing = &requirementLists{Authorization: []listedRequirement{{ID: f.connection.ID, URL: &f.connection.URL}}}
	}
	encoded, _ := json.Marshal(&body, jsontext.AllowInvalidUTF8(true), json.Deterministic(true)) // strings can always be encoded
	return append(b, encoded...)
}

// parameterErrors returns the error of each parameter. Errors that concern
// no single parameter have the name "input".
func parameterErrors(problems []tools.Problem) map[string]string {
	messages := make(map[string]string)
	for _, problem := range problems[:min(len(problems), maxProblems)] {
		name, rest := splitPointer(problem.Path)
		message := text.Cut(problem.Message, maxProblem)
		if rest != "" {
			message = text.Cut(rest, maxProblem) + ": " + message
		}
		if earlier, known := messages[name]; known {
			message = earlier + "; " + message
		}
		messages[name] = message
	}
	return messages
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

func unknownTool(failure *tools.Failure) *fault {
	return &fault{
		status:    http.StatusBadRequest,
		message:   failure.Message,
		developer: "GET /tools lists the ids of all tools",
	}
}

// invalidInput is the error of OXP for invalid input.
func invalidInput(failure *tools.Failure) *fault {
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

// missingLogin is the error for a call of a tool that needs a login, of a caller whom the gateway does not know. Credentials in the context are for the API.
func (k *toolkit) missingLogin(tool *entry, challenge string) *fault {
	var missing []requirement
	for _, all := range tool.requirements {
		if missing = slices.DeleteFunc(slices.Clone(all), func(r requirement) bool { return !r.scheme.IsLogin() }); len(missing) > 0 {
			break
		}
	}
	f := k.missingRequirements(tool, missing)
	f.message = tool.Name + " needs a login, and the request has no access token: send one of this gateway in the header Authorization"
	f.header, f.value = "WWW-Authenticate", challenge
	return f
}

// insufficientScope responds as RFC 6750, section 3.1, requires. All are the scopes of tools.Access.Challenge.
func insufficientScope(tool string, scopes, all []string, metadata string) *fault {
	challenge := `Bearer error="insufficient_scope", scope="` + strings.Join(all, " ") + `"`
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

// missingConnection is the error for a call whose user must connect an account first. OTC lists it as a missing authorization,
// with the address where the user gives it.
func missingConnection(f *tools.Failure) *fault {
	return &fault{status: http.StatusBadRequest, message: f.Message, connection: f.Connection}
}

// badCredentials is the fault for a caller whose own credentials the API has rejected.
func badCredentials(outcome *tools.Outcome, c *call) *fault {
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
func quoted(source string) string {
	const longest = 128 // bytes
	if len(source) > longest {
		source = strings.ToValidUTF8(source[:longest], "") + "…"
	}
	return strconv.Quote(source)
}
