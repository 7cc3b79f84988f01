package ocp

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp"
)

// emptyPlaceholders are the placeholders of a request without OCP headers: false and empty.
var emptyPlaceholders = placeholders(noHeaders)

// maxLogged limits a logged value, in characters.
const maxLogged = 256

// logField is one field of the context in the access log.
type logField struct {
	name string // current_goal, session.current_file
	key  string // ocp_current_goal, ocp_session_current_file
}

// logFields validates the names of the fields to log.
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

// fieldNames lists the fields for messages.
const fieldNames = "context_id, agent_type, current_goal, user, workspace, version, valid and session.<field>"

// checkField returns an error if there is no such field.
func checkField(name string) error {
	if _, known := contextField(noHeaders, name); !known && name != "valid" {
		return fmt.Errorf("unknown field; known are %s", fieldNames)
	}
	return nil
}

// logContext adds the configured fields to the access log entry.
func (h *Handler) logContext(in *ocp.Incoming, r *http.Request) {
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
		} else if value, _ := contextField(in, f.name); value != "" {
			extra.Set(zap.String(f.key, text.Cut(value, maxLogged)))
		}
	}
}
