package mcpadapter

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/headervalue"
	"github.com/fairwayhq/fairway/ocp"
)

// An agent that cannot set HTTP headers for a single call (over stdio or in a batch) can put its OCP
// context into _meta of tools/call. Each key corresponds to one header and has its value, a string
// (OCP 1.0, HTTP Headers):
//
//	org.opencontextprotocol/context-id     OCP-Context-ID
//	org.opencontextprotocol/agent-type     OCP-Agent-Type
//	org.opencontextprotocol/current-goal   OCP-Current-Goal
//	org.opencontextprotocol/user           OCP-User
//	org.opencontextprotocol/workspace      OCP-Workspace
//	org.opencontextprotocol/version        OCP-Version
//	org.opencontextprotocol/session        OCP-Session
//
// If _meta has any of these keys, they replace the OCP headers of the HTTP request completely. The
// result's _meta then returns context-id, version and session from the headers of the API's
// response.
const contextPrefix = "org.opencontextprotocol/"

// contextHeaders maps keys, without contextPrefix, to headers.
var contextHeaders = map[string]string{
	"context-id":   ocp.HeaderContextID,
	"agent-type":   ocp.HeaderAgentType,
	"current-goal": ocp.HeaderCurrentGoal,
	"user":         ocp.HeaderUser,
	"workspace":    ocp.HeaderWorkspace,
	"version":      ocp.HeaderVersion,
	"session":      ocp.HeaderSession,
}

// readContext returns the OCP context in _meta, or nil if there is none. Invalid values are ignored,
// as in headers.
func readContext(meta jsontext.Value) *ocp.Incoming {
	var header http.Header
	for walk := wire.Into(meta); walk.Next(); {
		if !bytes.HasPrefix(walk.Name[1:], []byte(contextPrefix)) && bytes.IndexByte(walk.Name, '\\') < 0 {
			continue
		}
		name, ours := strings.CutPrefix(wire.Text(walk.Name), contextPrefix)
		if !ours {
			continue
		}
		key, known := contextHeaders[name]
		if !known {
			continue
		}
		if header == nil {
			header = make(http.Header)
		}
		value := wire.Text(walk.Value)
		if key == ocp.HeaderSession && !headervalue.IsText(value) {
			value = "" // an empty value is recorded as a fault of the session
		}
		header[key] = []string{value}
	}
	if header == nil {
		return nil
	}
	return ocp.ReadIncoming(header, ocp.ReadOptions{})
}

// context returns the context for the call. It carries the client's user agent and location and the
// OCP context of _meta, which own returns too. own is nil if _meta has no OCP context.
func (m *message) context() (ctx context.Context, own *ocp.Incoming) {
	ctx = m.hinted(m.ctx)
	if own = readContext(m.params.meta); own == nil {
		return ctx, nil
	}
	return ocp.ContextWithIncoming(ctx, own), own
}

// replyKeys are the members of a result's _meta and the response headers that they repeat.
var replyKeys = [...]struct{ key, header string }{
	{`"` + contextPrefix + `context-id":`, ocp.HeaderContextID},
	{`"` + contextPrefix + `version":`, ocp.HeaderVersion},
	{`"` + contextPrefix + `session":`, ocp.HeaderSession},
}

// metaExposes is the member of _meta with the fields that the calling agent's document exposes
// (ocp.Result.Exposed).
const metaExposes = "org.openagentspec/exposes"

// exposedMeta returns the member metaExposes, or nil if the agent exposes nothing.
func (r *reply) exposedMeta() []byte {
	if r.Result == nil || r.Result.Exposed == "" {
		return nil
	}
	return []byte(`"` + metaExposes + `":` + r.Result.Exposed)
}

// contextMeta returns the members of _meta with the OCP context of the API's response, if the
// request carried a context in _meta, and with the exposed fields. It returns nil if there are
// neither.
func (r *reply) contextMeta() (meta []byte) {
	meta = r.exposedMeta()
	if r.requestContext == nil || r.Result == nil || len(r.Result.Header[ocp.HeaderSession]) == 0 {
		return meta
	}
	for _, key := range replyKeys {
		values := r.Result.Header[key.header]
		if len(values) != 1 {
			continue
		}
		if len(meta) > 0 {
			meta = append(meta, ',')
		}
		meta = wire.AppendString(append(meta, key.key...), values[0])
	}
	return meta
}
