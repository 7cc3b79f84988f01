package mcpadapter

import (
	"time"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/callcontext"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/revision"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

// uiExtension identifies MCP Apps in the list of extensions that the server declares.
const uiExtension = "io.modelcontextprotocol/ui"

// A lifecycleRequest is a request about the server itself: initialize, ping or server/discover.
type lifecycleRequest struct{ *message }

// initialize serves initialize, which revisions before 2026-07-28 start with (Lifecycle,
// Initialization). It negotiates the client's revision if the server speaks it, otherwise the newest
// revision that has initialize.
func (q lifecycleRequest) initialize() *jsonrpc.Fault {
	if q.params.protocolVersion.Kind() != '"' {
		return jsonrpc.BadParams("params.protocolVersion must be a string that names a revision, such as %q", revision.NewestStateful)
	}
	v := q.server.enabled.Of(wire.Text(q.params.protocolVersion))
	if v == revision.Unknown || v.Stateless() {
		v = q.server.enabled.NewestStateful()
	}
	if v == revision.Unknown {
		return negotiation.Unsupported(q.server.enabled, wire.Text(q.params.protocolVersion))
	}
	q.beginSession(v, elicit.ReadCapabilities(wire.MemberOf(q.params.raw, "capabilities")))
	b := wire.AppendString(append(q.beginResult(), `"protocolVersion":`...), v.String())
	b = q.appendCapabilities(append(b, `,"capabilities":`...), v)
	b = append(b, `,"serverInfo":`...)
	b = q.wholeCatalog().AppendIdentity(b, v)
	b = q.wholeCatalog().AppendInstructions(b)
	if locale := q.locale(); locale != "" {
		b = append(append(append(b, `,"_meta":{`...), callcontext.AppendLocale(nil, locale)...), '}')
	}
	q.out.B = append(b, "}}"...)
	return nil
}

// beginSession stores what initialize negotiated: in the connection, or else in a new session id.
func (q lifecycleRequest) beginSession(v revision.Revision, client elicit.Capabilities) {
	if q.connection != nil {
		q.connection.setNegotiated(v, client)
		return
	}
	q.newSessionID = q.server.signer().Issue(v, client, q.wholeCatalog().Digests(), q.site.User, time.Now().Add(q.server.options.SessionTTL))
}

// appendCapabilities appends the ServerCapabilities for the revision.
func (q lifecycleRequest) appendCapabilities(dst []byte, v revision.Revision) []byte {
	dst = append(dst, `{"tools":{"listChanged":true}`...)
	dst = append(dst, `,"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true}`...)
	if v.SupportsCompletion() {
		dst = append(dst, `,"completions":{}`...)
	}
	if v.SupportsExtensions() {
		var extensions wire.ObjectBuilder
		if q.catalog().Index().Pages {
			extensions.Add(uiExtension, []byte(`{"mimeTypes":["`+library.AppType+`"]}`))
		}
		if q.server.tasks != nil {
			extensions.Add(elicit.TasksExtension, []byte("{}"))
		}
		if len(extensions) > 0 {
			dst = append(append(dst, `,"extensions":`...), extensions.Close()...)
		}
	}
	if v.SupportsTaskParameter() && q.server.tasks != nil {
		dst = append(dst, `,"tasks":{`...)
		if _, known := q.site.identifiedOwner(); known {
			dst = append(dst, `"list":{},`...)
		}
		dst = append(dst, `"cancel":{},"requests":{"tools":{"call":{}}}}`...)
	}
	dst = append(dst, `,"logging":{}`...)
	return append(dst, '}')
}

// ping serves ping with an empty result.
func (q lifecycleRequest) ping() *jsonrpc.Fault {
	q.out.B = append(q.beginResult(), "}}"...)
	return nil
}

// discover serves server/discover, which takes the place of initialize in 2026-07-28: it returns the
// supported revisions and the server's capabilities.
func (q lifecycleRequest) discover() *jsonrpc.Fault {
	b := append(q.beginResult(), `"supportedVersions":`...)
	b = q.server.enabled.AppendTo(b)
	b = q.appendCapabilities(append(b, `,"capabilities":`...), q.version)
	b = append(b, ',')
	b = append(b, q.wholeCatalog().Fresh...)
	b = append(b, ',')
	b = q.appendComplete(b)
	b = q.wholeCatalog().AppendInstructions(b)
	q.out.B = append(b, "}}"...)
	return nil
}

// appendComplete appends the members of every result in 2026-07-28: resultType, and _meta with
// serverInfo.
func (m *message) appendComplete(dst []byte) []byte {
	return append(dst, m.wholeCatalog().Complete...)
}
