package ocp

import (
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/ocp"
)

// headerField returns a header of an OCP message by the name that placeholders, matchers and
// logs use for it.
func headerField(in *ocp.Incoming, name string) (value string, known bool) {
	switch name {
	case "context_id":
		return in.ContextID, true
	case "agent_type":
		return in.AgentType, true
	case "current_goal":
		return in.CurrentGoal, true
	case "user":
		return in.User, true
	case "workspace":
		return in.Workspace, true
	case "version":
		return in.Version, true
	}
	return "", false
}

// sessionField returns a field of the OCP session by a name such as session.current_file.
func sessionField(in *ocp.Incoming, name string) (value string, known bool) {
	field, known := strings.CutPrefix(name, "session.")
	if !known || field == "" {
		return "", false
	}
	if in.Session == nil {
		return "", true
	}
	return in.Session.Text(field), true
}

// noHeaders is a message without OCP headers.
var noHeaders = new(ocp.Incoming)

// contextField returns a field of an OCP message by name.
func contextField(in *ocp.Incoming, name string) (value string, known bool) {
	if value, known = headerField(in, name); known {
		return value, true
	}
	return sessionField(in, name)
}

// placeholders returns the {http.ocp.*} placeholders of a request.
func placeholders(in *ocp.Incoming) caddy.ReplacerFunc {
	return func(key string) (any, bool) {
		name, ok := strings.CutPrefix(key, route.OCPPrefix)
		if !ok {
			return nil, false
		}
		if name == "valid" {
			return in.Valid(), true
		}
		value, known := contextField(in, name)
		if !known {
			return nil, false
		}
		return oneLine(value), true
	}
}

// oneLine replaces control characters with spaces. Sessions may contain control characters and
// headers may not, so a context of several lines would otherwise break the request.
func oneLine(text string) string {
	isControl := func(r rune) bool { return r < ' ' || r == 0x7f }
	if strings.IndexFunc(text, isControl) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, text)
}
