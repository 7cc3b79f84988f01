package otcadapter

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

const (
	// maxCredentials limits the number of tokens and secrets of a call.
	maxCredentials = 64

	// maxCredential limits the length of each of them, in bytes.
	maxCredential = 16 << 10

	// maxCredentialID limits the length of the id of a credential, in bytes.
	maxCredentialID = 256

	// maxUserID limits the length of a user id, in bytes.
	maxUserID = 256
)

// A callContext is the context of a call (OTC 1.0, Tool Request Schema). Its content is only
// sent to the API. It never appears in errors, logs or metrics.
type callContext struct {
	raw         jsontext.Value // as received; nil if there was none
	userID      string         // claimed by the client; not an identity
	credentials []credential
}

// A credential is a token or secret. Its id names the requirement that it is for.
type credential struct {
	id, value string
}

// contextFields is the JSON form of a callContext.
type contextFields struct {
	Authorization []struct {
		ID    string `json:"id"`
		Token string `json:"token"`
	} `json:"authorization"`
	Secrets []struct {
		ID    string `json:"id"`
		Value string `json:"value"`
	} `json:"secrets"`
	UserID string `json:"user_id"`
}

// parseContext parses the context of a call. Unknown fields are allowed (OTC 1.0,
// Extensibility).
func parseContext(raw jsontext.Value) (callContext, *fault) {
	var fields contextFields
	if err := strictjson.Unmarshal(raw, &fields); err != nil {
		return callContext{}, badRequest(`"context": ` + explainBody(err))
	}
	if len(fields.UserID) > maxUserID {
		return callContext{}, badRequest(`"user_id" is longer than 256 bytes`)
	}
	if len(fields.Authorization)+len(fields.Secrets) > maxCredentials {
		return callContext{}, badRequest("the context has more than 64 tokens and secrets; send those that the tool requires")
	}
	c := callContext{raw: raw, userID: fields.UserID}
	for i, a := range fields.Authorization {
		if f := c.add("authorization", i, "token", credential{a.ID, a.Token}); f != nil {
			return callContext{}, f
		}
	}
	for i, s := range fields.Secrets {
		if f := c.add("secrets", i, "value", credential{s.ID, s.Value}); f != nil {
			return callContext{}, f
		}
	}
	return c, nil
}

// add adds a credential. Two credentials with the same id are an error, because it is not clear
// which one the client means.
func (c *callContext) add(list string, i int, field string, added credential) *fault {
	where := `"context.` + list + "[" + strconv.Itoa(i) + `]"`
	switch {
	case added.id == "":
		return badRequest(where + ` has no "id"; use an id from "requirements" in GET /tools`)
	case len(added.id) > maxCredentialID:
		return badRequest(where + ` has an "id" of more than 256 bytes`)
	case added.value == "":
		return badRequest(where + ` has no "` + field + `"`)
	case len(added.value) > maxCredential:
		return badRequest(where + ` has a "` + field + `" of more than 16 KiB`)
	}
	if _, exists := c.credential(added.id); exists {
		return badRequest(where + ` has the same "id" as another credential of the context`)
	}
	c.credentials = append(c.credentials, added)
	return nil
}

// credential returns the token or secret with that id.
func (c *callContext) credential(id string) (value string, ok bool) {
	for _, sent := range c.credentials {
		if sent.id == id {
			return sent.value, true
		}
	}
	return "", false
}

// A grant is the authorization of a call.
type grant struct {
	supplement *security.Supplement // nil if the call brings no credentials
	supplied   []requirement        // requirements whose credentials are in the supplement
	own        bool                 // some of the credentials are in the caller's own headers
}

// fromCaller reports whether the credentials for the API come from the caller, who can then renew
// rejected ones.
func (g *grant) fromCaller() bool {
	return g.own || len(g.supplied) > 0
}

// authorize determines the authorization of a call. It prefers an alternative whose credentials
// are all in the call's context over one that also needs the caller's own headers. If no
// alternative is satisfied, the call runs without credentials from the caller, provided that
// the gateway adds credentials or the tool does not require any.
func (k *toolkit) authorize(tool *entry, c *callContext, r *http.Request, access *tools.Access) (grant, *fault) {
	if k.injectsCredentials { // also if the call has credentials of its own: those of the gateway may replace them
		if f := k.checkScopes(tool, access); f != nil {
			return grant{}, f
		}
	}
	alternatives := tool.requirements
	provided := func(required requirement) bool {
		_, ok := c.credential(required.id)
		return ok
	}
	for _, all := range alternatives {
		if all != nil && allOf(all, provided) {
			return supplyCredentials(all, c)
		}
	}
	if k.injectsCredentials {
		return grant{}, nil
	}
	available := func(required requirement) bool { return provided(required) || carriesCredential(r, required.scheme) }
	for _, all := range alternatives {
		if !allOf(all, available) {
			continue
		}
		g, f := supplyCredentials(slices.DeleteFunc(slices.Clone(all), func(required requirement) bool { return !provided(required) }), c)
		g.own = len(g.supplied) < len(all)
		return g, f
	}
	missing := slices.DeleteFunc(slices.Clone(alternatives[0]), available)
	return grant{}, k.missingRequirements(tool, missing)
}

// allOf reports whether condition returns true for all requirements.
func allOf(all []requirement, condition func(requirement) bool) bool {
	return !slices.ContainsFunc(all, func(r requirement) bool { return !condition(r) })
}

// supplyCredentials puts the credentials of the context where the security schemes require them.
func supplyCredentials(all []requirement, c *callContext) (grant, *fault) {
	if len(all) == 0 {
		return grant{}, nil
	}
	g := grant{supplement: &security.Supplement{Credentials: true}, supplied: all}
	for _, requirement := range all {
		value, _ := c.credential(requirement.id)
		if err := requirement.scheme.Supply(g.supplement, value); err != nil {
			return grant{}, &fault{status: http.StatusBadRequest, message: err.Error()}
		}
	}
	return g, nil
}

// carriesCredential reports whether the caller's own request has the credentials of the scheme. They are
// forwarded with the call.
func carriesCredential(r *http.Request, scheme *security.Scheme) bool {
	switch {
	case scheme.Type != "apiKey":
		return r.Header.Get("Authorization") != ""
	case scheme.In == "header":
		return len(r.Header[textproto.CanonicalMIMEHeaderKey(scheme.ParameterName)]) > 0
	case scheme.In == "cookie":
		_, err := r.Cookie(scheme.ParameterName)
		return err == nil
	}
	return false
}

// checkScopes rejects a caller who has no token and needs one, or whose token lacks the scopes of the tool, if the gateway would add
// its own credentials to the call.
func (k *toolkit) checkScopes(tool *entry, access *tools.Access) *fault {
	if challenge, needed := access.Login(tool.Tool, k.tools); needed {
		return k.missingLogin(tool, challenge)
	}
	if missing := access.Missing(tool.Tool, k.tools); missing != nil {
		return insufficientScope(tool.Name, missing, access.Challenge(tool.Tool, k.tools), access.Metadata)
	}
	return nil
}

// A credentialSet returns the credentials that came with a call, because some APIs repeat them in
// their responses. It is nil if the call came without credentials. The set is built at the first
// use.
type credentialSet func() *text.Secrets

// credentialsOf returns the credentials of a call: those of its context, and those of the
// client's request that are sent to the API.
func (c *call) credentialsOf(r *http.Request) credentialSet {
	own := c.requestCredentials(r)
	if len(own) == 0 && len(c.context.credentials) == 0 {
		return nil
	}
	return sync.OnceValue(func() *text.Secrets {
		secrets := new(text.Secrets)
		for _, value := range own {
			secrets.AddHeader(value)
			secrets.Add(value)
		}
		for _, sent := range c.context.credentials {
			secrets.Add(sent.value)
		}
		for _, requirement := range c.grant.supplied {
			if requirement.scheme.Type == "http" && requirement.scheme.Scheme == "basic" {
				value, _ := c.context.credential(requirement.id)
				secrets.AddBasic(value)
			}
		}
		return secrets
	})
}

// requestCredentials returns the credentials of the client's request that are sent to the API:
// the header Authorization, and the headers and cookies in which the API takes keys.
func (c *call) requestCredentials(r *http.Request) (values []string) {
	values = append(values, r.Header["Authorization"]...)
	for _, name := range c.keyHeaders {
		if name != "Authorization" {
			values = append(values, r.Header[name]...)
		}
	}
	if c.tool == nil || len(r.Header["Cookie"]) == 0 {
		return values
	}
	for _, alternative := range c.tool.requirements {
		for _, requirement := range alternative {
			if requirement.scheme.Type != "apiKey" || requirement.scheme.In != "cookie" {
				continue
			}
			if cookie, err := r.Cookie(requirement.scheme.ParameterName); err == nil {
				values = append(values, cookie.Value)
			}
		}
	}
	return values
}

// conceal removes the credentials from a text.
func (s credentialSet) conceal(message string) string {
	if s == nil {
		return message
	}
	return s().Conceal(message)
}

// areIn reports whether a result, or the response built from it, contains one of the credentials.
// The result is checked too, because the response may encode it again. A response over limit bytes
// is not recorded and not checked.
func (s credentialSet) areIn(result *tools.Result, response []byte, limit int) bool {
	if len(response) > limit {
		return false
	}
	secrets := s()
	return result != nil && secrets.Contains(string(result.Body)) || secrets.Contains(string(response))
}
