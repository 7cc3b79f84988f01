package mcpadapter

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/ocp/callcontext"
	"github.com/fairwayhq/fairway/tools"
)

// ocpMetaPrefix is the beginning of the keys of _meta that hold OCP context.
//
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
const ocpMetaPrefix = "org.opencontextprotocol/"

// contextHeaders maps keys, without Prefix, to headers.
var contextHeaders = map[string]string{
	"context-id":   callcontext.HeaderContextID,
	"agent-type":   callcontext.HeaderAgentType,
	"current-goal": callcontext.HeaderCurrentGoal,
	"user":         callcontext.HeaderUser,
	"workspace":    callcontext.HeaderWorkspace,
	"version":      callcontext.HeaderVersion,
	"session":      callcontext.HeaderSession,
}

// readOCP returns the OCP headers in _meta, or nil if there are none. It does not check their values.
func readOCP(meta jsontext.Value) (header http.Header) {
	for walk := strictjson.Into(meta); walk.Next(); {
		if !bytes.HasPrefix(walk.Name[1:], []byte(ocpMetaPrefix)) && bytes.IndexByte(walk.Name, '\\') < 0 {
			continue
		}
		name, ours := strings.CutPrefix(strictjson.Text(walk.Name), ocpMetaPrefix)
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
		header[key] = []string{strictjson.Text(walk.Value)}
	}
	return header
}

// replyKeys are the members of a result's _meta and the response headers that they repeat.
var replyKeys = [...]struct{ key, header string }{
	{`"` + ocpMetaPrefix + `context-id":`, callcontext.HeaderContextID},
	{`"` + ocpMetaPrefix + `version":`, callcontext.HeaderVersion},
	{`"` + ocpMetaPrefix + `session":`, callcontext.HeaderSession},
}

// metaExposes is the member of _meta with the fields that the calling agent's document exposes
// (tools.Result.Exposed).
const metaExposes = "org.openagentspec/exposes"

// resultMeta returns the members of a result's _meta with the OCP context of the API's response, if the
// request carried the context own in _meta, and with the exposed fields. It returns nil if there are
// neither.
func resultMeta(r *tools.Result, own http.Header) (meta []byte) {
	if r.Exposed != "" {
		meta = append(append(meta, `"`+metaExposes+`":`...), r.Exposed...)
	}
	if own == nil || len(r.Header[callcontext.HeaderSession]) == 0 {
		return meta
	}
	for _, key := range replyKeys {
		values := r.Header[key.header]
		if len(values) != 1 {
			continue
		}
		meta = strictjson.AppendString(append(strictjson.Comma(meta), key.key...), values[0])
	}
	return meta
}
