package mcpadapter

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

// clock is an extension with a method of each kind.
func clock() Extension {
	return Extension{
		Name: "com.example/clock", Settings: `{"exact":true}`, Capability: `,"clock":{}`,
		Methods: map[string]ExtensionMethod{
			"clock/read": func(_ context.Context, r *ExtensionRequest) ([]byte, *Fault) {
				if r.Site.User == "" {
					return nil, &Fault{Status: http.StatusOK, Code: -32012, Message: "who are you?", Data: []byte(`{"kind":"clock"}`)}
				}
				return append(append([]byte(`{"user":"`+r.Site.User+`","params":`), r.Params...), '}'), nil
			},
			"clock/set": func(context.Context, *ExtensionRequest) ([]byte, *Fault) { return []byte("{}"), nil },
			"clock/ticks": func(_ context.Context, r *ExtensionRequest) ([]byte, *Fault) {
				return []byte("{}"), r.Stream(func(ctx context.Context, send func(string, []byte) error) {
					_ = send("notifications/clock/tick", []byte(`"at":1`))
					<-ctx.Done()
				})
			},
		},
	}
}

func TestExtension_is_declared_in_every_revision(t *testing.T) {
	server := New(Options{Extensions: []Extension{clock()}})
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) {
			method, definition, params := "initialize", "InitializeResult", `"protocolVersion":"`+v.String()+`","capabilities":{},"clientInfo":{"name":"a","version":"1"}`
			if v.Stateless() {
				method, definition, params = "server/discover", "DiscoverResult", ""
			}
			r := conformant(v, method, params)
			r.server = server
			var got struct {
				Capabilities struct {
					Clock      map[string]any
					Extensions map[string]map[string]any
				}
			}
			r.result(t, definition, &got)
			if c := got.Capabilities; c.Clock == nil || c.Extensions["com.example/clock"]["exact"] != true {
				t.Errorf("got %+v", c)
			}
		})
	}
}

func TestExtension_serves_methods_in_every_revision(t *testing.T) {
	for _, v := range revisions[1:] {
		t.Run(v.String(), func(t *testing.T) {
			e := serveEndpoint(t, Options{Extensions: []Extension{clock()}}, echo)
			send := func(method string) string {
				r := conformant(v, method, `"zone":"UTC"`)
				r.header[versionHeader] = v.String()
				var body strings.Builder
				_ = e.do(t, "POST", "/mcp", r.body, r.header).Write(&body)
				return body.String()
			}
			if got := send("clock/read"); !strings.Contains(got, `{"jsonrpc":"2.0","id":7,"error":{"code":-32012,"message":"who are you?","data":{"kind":"clock"}}}`) {
				t.Errorf("without a user: %s", got)
			}
			ada := "ada"
			e.user.Store(&ada)
			if got := send("clock/read"); !strings.Contains(got, `"user":"ada"`) || !strings.Contains(got, `"zone":"UTC"`) {
				t.Errorf("with a user: %s", got)
			}
			got := send("clock/set")
			_, result, _ := strings.Cut(got, `"result":`)
			if !json.Valid([]byte(strings.TrimSuffix(strings.TrimSpace(result), "}"))) || strings.Contains(result, `"resultType":"complete"`) != v.Stateless() {
				t.Errorf("an empty result: %s", got)
			}
			if got := send("clock/stop"); !strings.Contains(got, "-32601") {
				t.Errorf("another method: %s", got)
			}
		})
	}
}

func TestExtension_streams_until_the_server_or_the_credentials_end(t *testing.T) {
	r := conformant(protocol.V20260728, "clock/ticks", "")
	r.header[versionHeader] = "2026-07-28"
	for name, end := range map[string]func(*endpoint){
		"server":      func(e *endpoint) { e.server.Close() },
		"credentials": func(*endpoint) {},
	} {
		t.Run(name, func(t *testing.T) {
			e := serveEndpoint(t, Options{Extensions: []Extension{clock()}}, echo)
			if name == "credentials" {
				e.expireSoon()
			}
			stream := e.open(t, "POST", "/mcp", r.body, r.header)
			if _, _, data := stream.event(); data != `{"jsonrpc":"2.0","method":"notifications/clock/tick","params":{"at":1,"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}` {
				t.Errorf("got %s", data)
			}
			end(e)
			if _, _, data := stream.event(); !strings.Contains(data, `"id":7,"result":{"resultType":"complete"`) {
				t.Errorf("the last message is %s", data)
			}
			stream.ends()
		})
	}
	t.Run("no stream", func(t *testing.T) {
		e := serveEndpoint(t, Options{Extensions: []Extension{clock()}}, echo)
		r.header["Accept"] = "application/json"
		if response := e.do(t, "POST", "/mcp", r.body, r.header); response.StatusCode != http.StatusNotAcceptable {
			t.Errorf("status %d", response.StatusCode)
		}
	})
}

func TestNotify_reports_events_to_listeners_that_want_them(t *testing.T) {
	e := serveEndpoint(t, Options{}, echo)
	r := conformant(protocol.V20260728, "subscriptions/listen", `"notifications":{"eventsListChanged":true}`)
	r.header[versionHeader] = "2026-07-28"
	stream := e.open(t, "POST", "/mcp", r.body, r.header)
	if _, _, data := stream.event(); !strings.Contains(data, `"eventsListChanged":true`) {
		t.Errorf("acknowledged: %s", data)
	}
	e.server.Notify(ToolsChanged | EventsChanged)
	if _, _, data := stream.event(); !strings.Contains(data, "notifications/events/list_changed") {
		t.Errorf("got %s", data)
	}
}

func TestLive_is_read_and_watched_for_each_caller(t *testing.T) {
	var content atomic.Pointer[string]
	first := "first"
	content.Store(&first)
	lib, err := library.NewLibrary(library.LibraryOptions{Live: func() []library.Live {
		return []library.Live{{URI: "clock:///now", Name: "now", Mime: "text/plain", Read: func(context.Context) ([]byte, error) { return []byte(*content.Load()), nil }}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{PublicLists: true})
	server.SetLibrary(lib)
	read := conformant(protocol.V20260728, "resources/read", `"uri":"clock:///now"`)
	read.header[nameHeader] = "clock:///now"
	read.server = server
	var got struct {
		TTLMs      int
		CacheScope string
		Contents   []struct{ Text string }
	}
	read.result(t, "ReadResourceResult", &got)
	if len(got.Contents) != 1 || got.Contents[0].Text != "first" {
		t.Errorf("got %+v", got)
	}
	if got.CacheScope != "private" || got.TTLMs != 0 {
		t.Errorf("others may cache it: %+v", got)
	}
	list := conformant(protocol.V20260728, "resources/list", "")
	list.server = server
	var listed struct {
		Resources []struct{ URI, MIMEType string }
	}
	list.result(t, "ListResourcesResult", &listed)
	if len(listed.Resources) != 1 || listed.Resources[0].URI != "clock:///now" {
		t.Errorf("listed %+v", listed)
	}
	site := siteOf(trains(), echo)
	polling := server.newPolling(&site, "")
	before, _ := polling.stamp(t.Context(), "clock:///now")
	second := "second"
	content.Store(&second)
	if after, ok := polling.stamp(t.Context(), "clock:///now"); !ok || after == before {
		t.Errorf("a change is not noticed: %q, %q", before, after)
	}
}
