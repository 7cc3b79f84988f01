package tool

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
)

// UserArguments are the arguments of a call that only the user can supply, because a model
// must not invent them (Argument.NonInferrable).
type UserArguments struct {
	Needed   []*Argument // the call cannot be made without these
	Optional []*Argument // the call can be made with or without these
}

// FromUser returns the arguments that the user must give, and those that the user may
// give, in addition to the arguments that a model gave. It validates the model's arguments
// like Bind and returns the same errors, so that the user is not asked about a call that
// cannot be made. If the model gives non-inferrable arguments, they are treated as absent.
//
// If the body is optional, its arguments are needed only once another argument of the body
// is given. Until then, an argument of the body is optional only if the body requires no
// other argument.
func (t *Tool) FromUser(arguments []byte) (UserArguments, error) {
	call := newCall(t)
	problems, err := call.read(arguments)
	if err != nil {
		return UserArguments{}, err
	}
	for i := range t.all {
		if t.all[i].NonInferrable {
			call.values[i] = nil
		}
	}
	if err := call.check(problems, isNonInferrable); err != nil {
		return UserArguments{}, err
	}
	if err := call.checkSendable(); err != nil {
		return UserArguments{}, err
	}
	return call.fromUser(), nil
}

func isNonInferrable(a *Argument) bool { return a.NonInferrable }

// fromUser sorts the missing non-inferrable arguments into needed and optional ones.
func (c *Call) fromUser() (u UserArguments) {
	missing, begun := c.missingFromBody(), c.bodyIsBegun()
	for i := range c.Tool.all {
		a := &c.Tool.all[i]
		switch {
		case !a.NonInferrable, c.Tool.plans[i].Filled:
		case a.Required, begun && slices.Contains(missing, i):
			u.Needed = append(u.Needed, a)
		case a.In != InBody || c.Tool.body.Required || begun || !slices.ContainsFunc(missing, func(other int) bool { return other != i }):
			u.Optional = append(u.Optional, a)
		}
	}
	return u
}

// checkSendable reports arguments that are valid for the schema but cannot be sent in a
// request. Unlike Request, it works while the user's arguments are still missing.
func (c *Call) checkSendable() error {
	scratch := buffer.Get()
	defer buffer.Put(scratch)
	r := &http.Request{URL: new(url.URL), Header: make(http.Header)}
	if !slices.ContainsFunc(c.Tool.path, c.awaitsUser) {
		if err := c.setPath(r.URL, scratch); err != nil {
			return err
		}
	}
	if err := c.setParameters(r, scratch); err != nil {
		return err
	}
	return c.setBody(r)
}

// awaitsUser reports whether a part of the path is a missing non-inferrable argument.
func (c *Call) awaitsUser(part plan.Part) bool {
	return part.Literal == "" && c.Tool.all[part.Argument].NonInferrable && c.value(part.Argument) == nil
}
