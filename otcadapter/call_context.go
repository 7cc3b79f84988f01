package otcadapter

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
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
	if err := wire.Unmarshal(raw, &fields); err != nil {
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
