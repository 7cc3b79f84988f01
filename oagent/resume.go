package oagent

import (
	"errors"
	"strconv"
	"strings"
)

// Token identifies the Ticket for Guard.Resume. It contains no data of the call.
func (t *Ticket) Token() string {
	return strings.Join([]string{
		strconv.FormatInt(t.Number, 10), strconv.FormatInt(t.Nth, 10), strconv.FormatUint(t.born, 10), t.Review,
	}, ".")
}

var errBadToken = errors.New("invalid token of a ticket")

// Resume returns the Ticket of a call that was begun earlier, possibly by another process, so that the
// caller can finish it. c must equal the Call passed to Begin. The caller must finish a call only
// once.
func (g *Guard) Resume(c Call, token string) (*Ticket, error) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 4 || c.Agent == nil {
		return nil, errBadToken
	}
	capability, ok := c.Agent.Capability(c.Name)
	if !ok {
		return nil, errors.New("the agent no longer has the capability " + c.Name)
	}
	inputs, err := checkInputs(c.Inputs)
	if err != nil {
		return nil, err
	}
	t := &Ticket{Capability: capability, Key: c.Key(), Review: parts[3], guard: g, call: c, inputs: inputs}
	var errs [3]error
	t.Number, errs[0] = strconv.ParseInt(parts[0], 10, 64)
	t.Nth, errs[1] = strconv.ParseInt(parts[1], 10, 64)
	t.born, errs[2] = strconv.ParseUint(parts[2], 10, 64)
	if errors.Join(errs[:]...) != nil {
		return nil, errBadToken
	}
	return t, nil
}
