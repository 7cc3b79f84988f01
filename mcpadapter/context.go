package mcpadapter

import (
	"bytes"
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// An agent that cannot set HTTP headers for one call, over stdio or in a batch,
// puts its OCP context into _meta of tools/call. Each key stands for one header
// and has its value, a string (OCP 1.0, HTTP Headers):
//
//	org.opencontextprotocol/context-id     OCP-Context-ID
//	org.opencontextprotocol/agent-type     OCP-Agent-Type
//	org.opencontextprotocol/current-goal   OCP-Current-Goal
//	org.opencontextprotocol/user           OCP-User
//	org.opencontextprotocol/workspace      OCP-Workspace
//	org.opencontextprotocol/version        OCP-Version
//	org.opencontextprotocol/session        OCP-Session
//
// With any of them, the context of the call is what they say, and none of it is
// what the request's headers say. The result's _meta then has context-id, version and
// session as the API's answer has them in its headers.
const contextPrefix = "org.opencontextprotocol/"

// contextHeaders are the headers by what follows the prefix.
var contextHeaders = map[string]string{
	"context-id":   ocp.HeaderContextID,
	"agent-type":   ocp.HeaderAgentType,
	"current-goal": ocp.HeaderCurrentGoal,
	"user":         ocp.HeaderUser,
	"workspace":    ocp.HeaderWorkspace,
	"version":      ocp.HeaderVersion,
	"session":      ocp.HeaderSession,
}

// readContext returns the OCP context in _meta, nil if it has none. As in headers,
// what is wrong is ignored.
func readContext(meta jsontext.Value) *ocp.Incoming {
	var header http.Header
	for walk := wire.Into(meta); walk.Next(); {
		if !bytes.HasPrefix(walk.Name[1:], []byte(contextPrefix)) && bytes.IndexByte(walk.Name, '\\') < 0 {
			continue
		}
		name, ours := strings.CutPrefix(text(walk.Name), contextPrefix)
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
		value := text(walk.Value)
		if key == ocp.HeaderSession && !isHeaderText(value) {
			value = "" // which is a fault of its own
		}
		header[key] = []string{value}
	}
	if header == nil {
		return nil
	}
	return ocp.ReadIncoming(header, ocp.ReadOptions{})
}

// isHeaderText reports whether a text of JSON can be the value of a header: ASCII
// without control characters.
func isHeaderText(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return true
}

// context returns the context of the call, with what the client says of its user
// and the OCP context that it brings along; own is nil if that is none.
func (x *exchange) context() (ctx context.Context, own *ocp.Incoming) {
	ctx = x.hinted(x.ctx)
	if own = readContext(x.params.meta); own == nil {
		return ctx, nil
	}
	return ocp.ContextWithIncoming(ctx, own), own
}

// replyKeys are the members of a result's _meta and the headers they are taken
// from.
var replyKeys = [...]struct{ key, header string }{
	{`"` + contextPrefix + `context-id":`, ocp.HeaderContextID},
	{`"` + contextPrefix + `version":`, ocp.HeaderVersion},
	{`"` + contextPrefix + `session":`, ocp.HeaderSession},
}

// metaExposes is what the agent that made the call exposes (ocp.Result).
const metaExposes = "org.openagentspec/exposes"

// exposedMeta returns that member of _meta, nil if there is none.
func (r *reply) exposedMeta() []byte {
	if r.Result == nil || r.Result.Exposed == "" {
		return nil
	}
	return []byte(`"` + metaExposes + `":` + r.Result.Exposed)
}

// contextMeta returns the members of _meta that tell what the API's answer says of
// the context that the call brought along, and what the agent exposes, nil if that
// is nothing.
func (r *reply) contextMeta() (meta []byte) {
	meta = r.exposedMeta()
	if r.own == nil || r.Result == nil || len(r.Result.Header[ocp.HeaderSession]) == 0 {
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
