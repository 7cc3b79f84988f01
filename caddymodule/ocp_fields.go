package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/ocp"
)

// placeholderPrefix begins the placeholders of the ocp handler.
const placeholderPrefix = "http.ocp."

// headerField returns the header of a message that goes by that name in
// placeholders, matchers and logs.
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

// sessionField returns a field of the session that goes by a name such as
// session.current_file.
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

// noHeaders stands for a message without OCP headers.
var noHeaders = new(ocp.Incoming)

// field returns what a message says by that name.
func field(in *ocp.Incoming, name string) (value string, known bool) {
	if value, known = headerField(in, name); known {
		return value, true
	}
	return sessionField(in, name)
}

// placeholdersOf returns the {http.ocp.*} placeholders of a request.
func placeholdersOf(in *ocp.Incoming) caddy.ReplacerFunc {
	return func(key string) (any, bool) {
		name, ok := strings.CutPrefix(key, placeholderPrefix)
		if !ok {
			return nil, false
		}
		if name == "valid" {
			return in.Valid(), true
		}
		value, known := field(in, name)
		if !known {
			return nil, false
		}
		return oneLine(value), true
	}
}

// oneLine puts spaces for control characters, which sessions may have and headers
// may not: a context of several lines must not break the request that it is for.
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

// noPlaceholders are those of a request without OCP headers: false and empty.
var noPlaceholders = placeholdersOf(noHeaders)

// maxLogged bounds a logged value, in characters.
const maxLogged = 256

// logField is one field of the context that the access log tells.
type logField struct {
	name string // current_goal, session.current_file
	key  string // ocp_current_goal, ocp_session_current_file
}

func logFields(names []string) ([]logField, error) {
	fields := make([]logField, 0, len(names))
	for _, name := range names {
		if err := checkField(name); err != nil {
			return nil, fmt.Errorf("log %s: %w", name, err)
		}
		fields = append(fields, logField{name, "ocp_" + strings.ReplaceAll(name, ".", "_")})
	}
	return fields, nil
}

// fieldNames says in messages which fields there are.
const fieldNames = "context_id, agent_type, current_goal, user, workspace, version, valid and session.<field>"

// checkField refuses what is no name of a field.
func checkField(name string) error {
	if _, known := field(noHeaders, name); !known && name != "valid" {
		return fmt.Errorf("there is no such field; there are %s", fieldNames)
	}
	return nil
}

// log adds the fields that the operator asked for to the access log.
func (h *OCP) log(in *ocp.Incoming, r *http.Request) {
	if len(h.fields) == 0 {
		return
	}
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if server != nil && server.Logs == nil {
		return
	}
	extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	if !ok {
		return
	}
	for _, f := range h.fields {
		if f.name == "valid" {
			extra.Set(zap.Bool(f.key, in.Valid()))
		} else if value, _ := field(in, f.name); value != "" {
			extra.Set(zap.String(f.key, clipText(value, maxLogged)))
		}
	}
}

// clipText returns the first characters of a text.
func clipText(text string, limit int) string {
	if len(text) <= limit || utf8.RuneCountInString(text) <= limit {
		return text
	}
	for i := range text {
		if limit == 0 {
			return text[:i] + "…"
		}
		limit--
	}
	return text
}
