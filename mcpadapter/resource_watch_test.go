package mcpadapter

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

func TestStamp_follows_the_resource(t *testing.T) {
	folder := oneFile(t)
	file := filepath.Join(folder, "a.txt")
	lib, err := library.NewLibrary(library.LibraryOptions{
		Resources: []library.Resource{{URI: "docs:a", File: file}},
		Folders:   []library.Folder{{Path: folder, Prefix: "all:/"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server, tools := New(Options{WatchInterval: 1, WatchRate: 1e9}), stationTools(t) // no stamp holds
	server.SetLibrary(lib)
	answer, tag := "one", ""
	site := siteOf(tools, through(tools, func(w http.ResponseWriter, _ *http.Request) {
		if tag != "" {
			w.Header().Set("ETag", tag)
		}
		if answer == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(answer))
	}))
	q := server.newPolling(&site, "")
	stamp := func(uri string) string {
		t.Helper()
		s, ok := q.stamp(t.Context(), uri)
		if !ok {
			t.Fatalf("%s has no stamp", uri)
		}
		return s
	}
	for _, uri := range []string{"docs:a", "all:/a.txt"} {
		before := stamp(uri)
		if before != stamp(uri) {
			t.Errorf("%s changes by itself", uri)
		}
		if err := os.WriteFile(file, []byte("longer"+before), 0o644); err != nil {
			t.Fatal(err)
		}
		if before == stamp(uri) {
			t.Errorf("%s has changed and its stamp has not", uri)
		}
	}
	before := stamp("notice://today")
	if answer = "two"; before == stamp("notice://today") {
		t.Error("the answer has changed and its stamp has not")
	}
	tag = `"1"`
	before = stamp("notice://today")
	if answer = "three"; before != stamp("notice://today") {
		t.Error("the entity tag is the same and the stamp is not")
	}
	tag, answer = "", ""
	if _, ok := q.stamp(t.Context(), "notice://today"); ok {
		t.Error("an answer that failed has a stamp")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if before = stamp("docs:a"); before != "" {
		t.Errorf("a file that is gone has the stamp %q", before)
	}
}

func oneFile(t *testing.T) string { return writeFiles(t, map[string]string{"a.txt": "a"}) }

func TestSubscriptions_belong_to_a_session(t *testing.T) {
	server := stocked(t, Options{})
	for _, v := range []protocol.Revision{protocol.V20241105, protocol.V20250326, protocol.V20250618, protocol.V20251125} {
		shelved(t, server, v, "resources/subscribe", `"uri":"docs:///fares"`).fault(t, 200, protocol.InvalidRequest)
		shelved(t, server, v, "resources/subscribe", `"uri":"docs:///nothing"`).fault(t, 200, resourceNotFound)
		var got struct{}
		shelved(t, server, v, "resources/unsubscribe", `"uri":"docs:///fares"`).result(t, "EmptyResult", &got)
	}
	shelved(t, server, protocol.V20260728, "resources/subscribe", `"uri":"docs:///fares"`).fault(t, 404, protocol.MethodNotFound)
	shelved(t, server, protocol.V20260728, "resources/unsubscribe", `"uri":"docs:///fares"`).fault(t, 404, protocol.MethodNotFound)
}

// The official Go client reads the library in each revision, and is notified when a
// resource that it has subscribed to changes.
func TestOfficialGoClient_reads_the_library(t *testing.T) {
	folder := oneFile(t)
	file := filepath.Join(folder, "a.txt")
	lib, err := library.NewLibrary(library.LibraryOptions{
		Resources: []library.Resource{{URI: "docs:///a", File: file}},
		Folders:   []library.Folder{{Path: folder, Prefix: "all:///"}},
		Prompts:   fixturePrompts(t)[:1],
	})
	if err != nil {
		t.Fatal(err)
	}
	server, tools := New(Options{WatchInterval: 20 * time.Millisecond, PageSize: 2}), stationTools(t)
	server.SetLibrary(lib)
	caller := through(tools, stationsAPI)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(w, r, siteOf(tools, caller))
	}))
	defer site.Close()
	defer server.Close()
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) { useLibrary(t, site.URL, v, file) })
	}
}

func useLibrary(t *testing.T, url string, v protocol.Revision, file string) {
	ctx := t.Context()
	updated := make(chan string, 100)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			select {
			case updated <- r.Params.URI:
			default:
			}
		},
	})
	opened, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, &mcp.ClientSessionOptions{ProtocolVersion: v.String()})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var uris []string
	for r, err := range opened.Resources(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, r.URI)
	}
	if all := strings.Join(uris, " "); all != "docs:///a trains:///stations notice://today native://all secret://one all:///a.txt" {
		t.Errorf("listed %s", all)
	}
	count := 0
	for _, err := range opened.ResourceTemplates(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	if count != 4 {
		t.Errorf("%d templates", count)
	}
	got, err := opened.ReadResource(ctx, &mcp.ReadResourceParams{URI: "photos://all/7.png"})
	if err != nil || string(got.Contents[0].Blob) != "\x89PNG" {
		t.Errorf("read %+v, %v", got, err)
	}
	_, err = opened.ReadResource(ctx, &mcp.ReadResourceParams{URI: "docs:///nothing"})
	code := int64(resourceNotFound)
	if v.Stateless() {
		code = protocol.InvalidParams
	}
	wantCode(t, err, code)
	prompt, err := opened.GetPrompt(ctx, &mcp.GetPromptParams{Name: "plan_trip", Arguments: map[string]string{"city": "Bern"}})
	if err != nil || !strings.HasPrefix(prompt.Messages[0].Content.(*mcp.TextContent).Text, "From Bern") {
		t.Errorf("got %+v, %v", prompt, err)
	}
	values, err := opened.Complete(ctx, &mcp.CompleteParams{
		Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "plan_trip"}, Argument: mcp.CompleteParamsArgument{Name: "city", Value: "be"},
	})
	if err != nil || strings.Join(values.Completion.Values, " ") != "Berlin Bern" {
		t.Errorf("completed %+v, %v", values, err)
	}
	if v == protocol.V20241105 || v.Stateless() {
		return // whose streams have tests of their own
	}
	if err := opened.Subscribe(ctx, &mcp.SubscribeParams{URI: "docs:///a"}); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(time.Minute)
	for n := 0; ; n++ {
		// The client's stream may be opened after the file is changed first.
		if err := os.WriteFile(file, []byte(strings.Repeat("b", n%1000)), 0o644); err != nil {
			t.Fatal(err)
		}
		select {
		case uri := <-updated:
			if uri != "docs:///a" {
				t.Errorf("reported %s", uri)
			}
			if err := opened.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: "docs:///a"}); err != nil {
				t.Error(err)
			}
			return
		case <-time.After(30 * time.Millisecond):
		case <-deadline:
			t.Fatal("no notification")
		}
	}
}

// A resource that changes right after the response to a subscription is reported, however long the interval of polls is.
func TestSubscription_reports_the_next_change(t *testing.T) {
	const subscribe = `{"jsonrpc":"2.0","id":"S","method":"resources/subscribe","params":{"uri":"docs:///a"}}`
	streamable := func(t *testing.T, e *endpoint, change func()) *feed {
		header := map[string]string{sessionHeader: begin(t, e.server, protocol.V20251125), versionHeader: "2025-11-25"}
		if response := e.do(t, "POST", "/mcp", subscribe, header); response.StatusCode != 200 {
			t.Fatalf("status %d", response.StatusCode)
		}
		change()
		return e.open(t, "GET", "/mcp", "", header)
	}
	for rule, c := range map[string]struct {
		interval  time.Duration
		subscribe func(t *testing.T, e *endpoint, change func()) *feed
	}{
		"2025-11-25": {time.Hour, streamable},
		"HTTP+SSE": {200 * time.Millisecond, func(t *testing.T, e *endpoint, change func()) *feed {
			stream, target := openLegacy(t, e)
			e.do(t, "POST", target, subscribe, nil)
			stream.event()
			change()
			return stream
		}},
	} {
		t.Run(rule, func(t *testing.T) {
			file := filepath.Join(oneFile(t), "a.txt")
			lib, err := library.NewLibrary(library.LibraryOptions{Resources: []library.Resource{{URI: "docs:///a", File: file}}})
			if err != nil {
				t.Fatal(err)
			}
			e := serveEndpoint(t, Options{WatchInterval: c.interval}, echo)
			e.server.SetLibrary(lib)
			defer time.AfterFunc(20*time.Second, e.server.Close).Stop()
			stream := c.subscribe(t, e, func() {
				if err := os.WriteFile(file, []byte("changed"), 0o644); err != nil {
					t.Fatal(err)
				}
			})
			for {
				if _, _, data := stream.event(); strings.Contains(data, `"method":"notifications/resources/updated"`) {
					return
				}
			}
		})
	}
}

// A client that subscribes again keeps the version that it knows.
func TestSubscription_again_keeps_the_known_version(t *testing.T) {
	var state session.State
	state.Subscribe("docs:///a")
	if _, changed := state.Saw("docs:///a", "1"); changed {
		t.Error("the first version is a change")
	}
	state.Subscribe("docs:///a")
	if before, changed := state.Saw("docs:///a", "2"); !changed || before != "1" {
		t.Errorf("before = %q, changed = %v", before, changed)
	}
	state.Unsubscribe("docs:///a")
	if _, changed := state.Saw("docs:///a", "3"); changed {
		t.Error("a resource that is not watched has changed")
	}
}
