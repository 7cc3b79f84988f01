package otcadapter

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

const (
	// maxCredentials is how many tokens and secrets a call may bring.
	maxCredentials = 64

	// maxCredential is how long each of them may be, in bytes.
	maxCredential = 16 << 10

	// maxCredentialID is how long its id may be, in bytes.
	maxCredentialID = 256

	// maxUserID is how long a user id may be, in bytes.
	maxUserID = 256
)

// A callContext is the context of a call (OTC 1.0, Tool Request Schema). What it
// holds is told to nobody but the API: no error, log or metric repeats it.
type callContext struct {
	raw         jsontext.Value // as it came; nil if there was none
	userID      string         // what the client says, and no identity
	credentials []credential
}

// A credential is a token or secret for one of the requirements of a tool, which
// its id names.
type credential struct {
	id, value string
}

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

// parseContext reads the context of a call. Fields that it does not know may be
// there (OTC 1.0, Extensibility).
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

// add adds a credential. Two for one id are refused: which of them the client
// means is not for the server to guess.
func (c *callContext) add(list string, i int, field string, added credential) *fault {
	where := `"context.` + list + "[" + strconv.Itoa(i) + `]"`
	switch {
	case added.id == "":
		return badRequest(where + ` has no "id"; it is one of those under "requirements" in GET /tools`)
	case len(added.id) > maxCredentialID:
		return badRequest(where + ` has an "id" of more than 256 bytes`)
	case added.value == "":
		return badRequest(where + ` has no "` + field + `"`)
	case len(added.value) > maxCredential:
		return badRequest(where + ` has a "` + field + `" of more than 16 KiB`)
	}
	if _, twice := c.credential(added.id); twice {
		return badRequest(where + ` has an "id" that another credential of the context has already`)
	}
	c.credentials = append(c.credentials, added)
	return nil
}

// credential returns the token or secret of that id.
func (c *callContext) credential(id string) (value string, ok bool) {
	for _, held := range c.credentials {
		if held.id == id {
			return held.value, true
		}
	}
	return "", false
}
