package mcpadapter

import (
	"time"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
)

// uiExtension identifies MCP Apps in the list of extensions that the server declares.
const uiExtension = "io.modelcontextprotocol/ui"

// initialize serves initialize, which revisions before 2026-07-28 start with (Lifecycle,
// Initialization). It negotiates the client's revision if the server speaks it, otherwise the newest
// revision that has initialize and the transport.
func initialize(q *request, w *response) *protocol.Fault {
	wanted := strictjson.MemberOf(q.params.raw, "protocolVersion")
	if wanted.Kind() != '"' {
		return protocol.BadParams("params.protocolVersion must be a string that names a revision, such as %q", protocol.NewestStateful)
	}
	v := q.server.enabled.Of(strictjson.Text(wanted))
	if v == protocol.Unknown || v.Stateless() {
		v = q.server.enabled.NewestStateful()
		if q.connection != nil && q.connection.legacy {
			v = protocol.V20241105 // HTTP+SSE is its transport
		}
	}
	if v == protocol.Unknown {
		return protocol.UnsupportedRevision(q.server.enabled, strictjson.Text(wanted))
	}
	terms := protocol.Terms{Version: v, Client: protocol.ReadCapabilities(strictjson.MemberOf(q.params.raw, "capabilities"))}
	if q.connection != nil {
		q.connection.setNegotiated(terms)
	} else if f := q.beginSession(terms, w); f != nil {
		return f
	}
	b := strictjson.AppendString(append(w.begin(), `"protocolVersion":`...), v.String())
	b = appendCapabilities(append(b, `,"capabilities":`...), q, v)
	b = append(b, `,"serverInfo":`...)
	b = q.wholeCatalog().AppendIdentity(b, v)
	b = q.wholeCatalog().AppendInstructions(b)
	if locale := appendLocale(nil, w.locale); locale != nil {
		b = append(append(append(b, `,"_meta":{`...), locale...), '}')
	}
	w.end(b)
	return nil
}

// beginSession stores what initialize negotiated in a new session id.
func (q *request) beginSession(terms protocol.Terms, w *response) *protocol.Fault {
	signer, f := q.server.signer(q.ctx)
	if f != nil {
		return f
	}
	w.sessionID = signer.Issue(terms.Version, terms.Client, q.wholeCatalog().Digests(), q.site.User, time.Now().Add(q.server.options.SessionTTL))
	return nil
}

// appendCapabilities appends the ServerCapabilities for the revision.
func appendCapabilities(dst []byte, q *request, v protocol.Revision) []byte {
	dst = append(dst, `{"tools":{"listChanged":true}`...)
	dst = append(dst, `,"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true}`...)
	if v.SupportsCompletion() {
		dst = append(dst, `,"completions":{}`...)
	}
	var extensions strictjson.ObjectBuilder
	if v.SupportsExtensions() {
		if q.catalog().Index().Pages {
			extensions.Add(uiExtension, []byte(`{"mimeTypes":["`+library.AppType+`"]}`))
		}
		if len(q.catalog().Index().Skills) > 0 {
			extensions.Add(skills.Extension, []byte(`{"directoryRead":true}`))
		}
		if q.server.tasks != nil {
			extensions.Add(protocol.TasksExtension, []byte("{}"))
		}
	}
	for _, e := range q.server.options.Extensions {
		if e.Name != "" {
			extensions.Add(e.Name, []byte(e.Settings))
		}
		dst = append(dst, e.Capability...)
	}
	if len(extensions) > 0 {
		dst = append(append(dst, `,"extensions":`...), extensions.Close()...)
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
func ping(_ *request, w *response) *protocol.Fault {
	w.empty()
	return nil
}

// discover serves server/discover, which takes the place of initialize in 2026-07-28: it returns the
// supported revisions and the server's capabilities.
func discover(q *request, w *response) *protocol.Fault {
	b := append(w.begin(), `"supportedVersions":`...)
	b = q.server.enabled.AppendTo(b)
	b = appendCapabilities(append(b, `,"capabilities":`...), q, q.version)
	b = append(b, ',')
	b = append(b, q.wholeCatalog().Fresh...)
	b = append(append(b, ','), w.complete...)
	w.end(q.wholeCatalog().AppendInstructions(b))
	return nil
}
