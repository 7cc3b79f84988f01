package tools

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/tools/request"
)

// UserArguments are the arguments of a call that only the user can supply, because a model
// must not invent them (Argument.NonInferrable).
type UserArguments struct {
	Needed   []*Argument // the call cannot be made without these
	Optional []*Argument // the call can be made with or without these
}

// FromUser returns the arguments that the user must give, and those that the user may
// give, in addition to the arguments that a model gave. It reads the model's arguments
// like Read and returns the same errors, so that the user is not asked about a call that
// cannot be made. If the model gives non-inferrable arguments, they are treated as absent.
//
// If the body is optional, its arguments are needed only once another argument of the body
// is given. Until then, an argument of the body is optional only if the body requires no
// other argument.
func (t *Tool) FromUser(arguments []byte) (UserArguments, error) {
	call, _, err := (&validation{tool: t, forgiven: isNonInferrable, converts: true}).bind(arguments)
	if err != nil {
		return UserArguments{}, err
	}
	if err := checkSendable(call); err != nil {
		return UserArguments{}, err
	}
	u := UserArguments{}
	u.collect(call)
	return u, nil
}

func isNonInferrable(a *Argument) bool { return a.NonInferrable }

// collect adds the missing non-inferrable arguments of a call.
func (u *UserArguments) collect(c *Call) {
	missing, begun := c.missingFromBody(), c.bodyIsBegun()
	for i := range c.Tool.Plan.Arguments {
		a := &c.Tool.Plan.Arguments[i]
		switch {
		case !a.NonInferrable, c.Tool.Plan.Encodings[i].Filled:
		case a.Required, begun && slices.Contains(missing, i):
			u.Needed = append(u.Needed, a)
		case a.In != InBody || c.Tool.Plan.Body.Required || begun || !slices.ContainsFunc(missing, func(other int) bool { return other != i }):
			u.Optional = append(u.Optional, a)
		}
	}
}

// checkSendable reports arguments that are valid for the schema but cannot be sent in a
// request. Unlike Request, it works while the user's arguments are still missing.
func checkSendable(c *Call) error {
	scratch := buffer.Get()
	defer buffer.Put(scratch)
	r := &http.Request{URL: new(url.URL), Header: make(http.Header)}
	b := requestBuilder{call: c, plan: &c.Tool.Plan, scratch: scratch}
	if !slices.ContainsFunc(c.Tool.Plan.Parts, b.awaits) {
		if err := b.appendPath(); err != nil {
			return err
		}
	}
	if err := b.setParameters(r); err != nil {
		return err
	}
	return b.setBody(r)
}

// awaits reports whether a part of the path has no value yet: a non-inferrable argument that is
// missing, or a fixed value that is resolved when the call is sent.
func (b *requestBuilder) awaits(part request.Part) bool {
	return part.Literal == "" && b.call.value(part.Argument) == nil &&
		(b.plan.Arguments[part.Argument].NonInferrable || b.plan.Encodings[part.Argument].Guarded)
}
