package ocp

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// UserArguments are those arguments of a call that a model must not make up
// (Argument.NonInferrable), so that only the user can give them.
type UserArguments struct {
	Needed   []*Argument // without which the call cannot be made
	Optional []*Argument // with which it can be made as well
}

// FromUser returns what the user has to give, and may give, beside the arguments
// that a model has given. It checks those as Bind does, so that nobody is asked for
// the sake of a call that cannot be made; the error is that of Bind. Non-inferrable
// arguments among them count as not given.
//
// Of a body that may be left out, nothing is needed before one of its other
// arguments is given. Until then an argument of it is optional only if the body
// needs nothing else.
func (t *Tool) FromUser(arguments []byte) (UserArguments, error) {
	call := &Call{Tool: t, values: make([]jsontext.Value, len(t.all))}
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

// fromUser tells the non-inferrable arguments apart.
func (c *Call) fromUser() (u UserArguments) {
	missing, begun := c.missingFromBody(), c.bodyIsBegun()
	for i := range c.Tool.all {
		a := &c.Tool.all[i]
		switch {
		case !a.NonInferrable, c.Tool.plans[i].filled:
		case a.Required, begun && slices.Contains(missing, i):
			u.Needed = append(u.Needed, a)
		case a.In != InBody || c.Tool.body.required || begun || !slices.ContainsFunc(missing, func(other int) bool { return other != i }):
			u.Optional = append(u.Optional, a)
		}
	}
	return u
}

// checkSendable reports arguments that fit the schema and still cannot be sent, as
// Request does, while others are not there yet.
func (c *Call) checkSendable() error {
	r := &http.Request{URL: new(url.URL), Header: make(http.Header)}
	if !slices.ContainsFunc(c.Tool.path, c.awaitsUser) {
		if err := c.setPath(r.URL); err != nil {
			return err
		}
	}
	if err := c.setParameters(r); err != nil {
		return err
	}
	return c.setBody(r)
}

// awaitsUser reports whether a part of the path is for the user to give.
func (c *Call) awaitsUser(part pathPart) bool {
	return part.literal == "" && c.Tool.all[part.argument].NonInferrable && c.value(part.argument) == nil
}
