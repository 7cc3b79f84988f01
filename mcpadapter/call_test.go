package mcpadapter

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/callid"
)

type toolResult struct {
	ResultType string
	Content    []struct {
		Type, Text, Data, MimeType string
		Resource                   struct{ URI, Blob, MimeType string }
	}
	StructuredContent json.RawMessage
	IsError           bool
}

func call(v protocol.Revision, caller tools.Caller) testRequest {
	r := conformant(v, "tools/call", `"name":"get_trip","arguments":{"id":"1"}`)
	r.caller = caller
	return r
}

func returning(outcome tools.Outcome) tools.Caller {
	return callerFunc(func(context.Context, string, []byte) tools.Outcome { return outcome })
}

func TestContent_follows_the_media_type(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	const png = "\x89PNG\r\n\x1a\n\x00"
	for _, c := range []struct {
		rule, contentType, body string
		kind, want              string // of the content block
		structured              string // in 2026-07-28
	}{
		{"json/object", "application/json", ` {"a": 1} `, "text", ` {"a": 1} `, `{"a": 1}`},
		{"json/parameters", "Application/JSON; charset=utf-8", `{"a":1}`, "text", `{"a":1}`, `{"a":1}`},
		{"json/suffix", "application/hal+json", `{"a":1}`, "text", `{"a":1}`, `{"a":1}`},
		{"json/array", "application/json", `[1,2]`, "text", `[1,2]`, `[1,2]`},
		{"json/string", "application/json", `"x"`, "text", `"x"`, `"x"`},
		{"json/null", "application/json", `null`, "text", `null`, `null`},
		{"json/big-number", "application/json", `{"n":123456789012345678901}`, "text", `{"n":123456789012345678901}`, `{"n":123456789012345678901}`},
		{"json/broken", "application/json", `{"a":`, "text", `{"a":`, ``},
		{"json/two-values", "application/json", `{}{}`, "text", `{}{}`, ``},
		{"json/blank", "application/json", "  ", "text", "  ", ``},
		{"json/bad-utf8", "application/json", "{\"a\":\"\xff\"}", "text", "{\"a\":\"\ufffd\"}", ``},
		{"json/lone-surrogate", "application/json", `{"a":"\ud800"}`, "text", `{"a":"\ud800"}`, ``},
		{"json/name-twice", "application/json", `{"a":1,"a":2}`, "text", `{"a":1,"a":2}`, ``},
		{"json/name-twice-escaped", "application/json", `{"b":[{"a":1,"\u0061":2}]}`, "text", `{"b":[{"a":1,"\u0061":2}]}`, ``},
		{"json/deep", "application/json", strings.Repeat("[", 5000), "text", strings.Repeat("[", 5000), ``},
		{"text/plain", "text/plain", "a\n\"b\"\x00", "text", "a\n\"b\"\x00", ``},
		{"text/bad-utf8", "text/plain", "caf\xe9", "text", "caf\ufffd", ``},
		{"text/html", "text/html", "<p>", "text", "<p>", ``},
		{"text/xml", "application/xml", "<a/>", "text", "<a/>", ``},
		{"text/ndjson", "application/x-ndjson", "{}\n{}", "text", "{}\n{}", ``},
		{"text/svg", "image/svg+xml", "<svg/>", "text", "<svg/>", ``},
		{"text/undeclared", "", "hello", "text", "hello", ``},
		{"image", "image/png", png, "image", b64([]byte(png)), ``},
		{"audio", "audio/wav", "RIFF\x00", "audio", b64([]byte("RIFF\x00")), ``},
		{"blob", "application/pdf", "%PDF\x00", "resource", b64([]byte("%PDF\x00")), ``},
		{"blob/undeclared", "", "\xff\x00", "resource", b64([]byte("\xff\x00")), ``},
		{"empty", "application/json", "", "text", "200 OK", ``},
	} {
		for _, v := range revisions {
			t.Run(c.rule+"/"+v.String(), func(t *testing.T) {
				var got toolResult
				call(v, returning(answered(http.StatusOK, c.contentType, c.body))).result(t, "CallToolResult", &got)
				kind := c.kind
				if kind == "audio" && v < protocol.V20250326 {
					kind = "resource"
				}
				if len(got.Content) != 1 || got.Content[0].Type != kind || got.IsError {
					t.Fatalf("got %+v", got)
				}
				block := got.Content[0]
				if value := block.Text + block.Data + block.Resource.Blob; value != c.want {
					t.Errorf("got %q, want %q", value, c.want)
				}
				if c.kind == "image" && block.MimeType != "image/png" || kind == "resource" && block.Resource.URI != "tool://trains/get_trip" {
					t.Errorf("got %+v", block)
				}
				want := c.structured
				if v < protocol.V20250618 || v < protocol.V20260728 && !strings.HasPrefix(want, "{") {
					want = ""
				}
				if string(got.StructuredContent) != want {
					t.Errorf("structuredContent %s, want %s", got.StructuredContent, want)
				}
				if (got.ResultType == "complete") != (v >= protocol.V20260728) {
					t.Errorf("resultType %q", got.ResultType)
				}
			})
		}
	}
}

// TestAnswer_has_the_id_of_the_call wants the id beside the other members of _meta, and none of an earlier Fairway.
func TestAnswer_has_the_id_of_the_call(t *testing.T) {
	id := callid.New()
	failed := answered(500, "text/plain", "x")
	failed.Failure = &tools.Failure{Kind: tools.Failed, Status: 500, Message: "500"}
	next := answered(200, "text/plain", "x")
	next.Result.Next = "c"
	for rule, outcome := range map[string]tools.Outcome{"ok": answered(200, "text/plain", "x"), "failed": failed, "part": next} {
		for _, v := range revisions {
			t.Run(rule+"/"+v.String(), func(t *testing.T) {
				var got struct {
					Meta map[string]json.RawMessage `json:"_meta"`
				}
				outcome.ID = id
				call(v, returning(outcome)).result(t, "CallToolResult", &got)
				if want := strconv.Quote(id.String()); string(got.Meta[metaCall]) != want {
					t.Errorf("got the id %s in %s, want %s", got.Meta[metaCall], got.Meta, want)
				}
				if (got.Meta[metaServer] != nil) != v.Stateless() || (got.Meta[metaHTTP] != nil) != (rule == "failed") || (got.Meta[metaNext] != nil) != (rule == "part") {
					t.Errorf("got the members %s", got.Meta)
				}
			})
		}
	}
}

func TestAnswer_without_body(t *testing.T) {
	created := answered(http.StatusCreated, "", "")
	created.Result.Header.Set("Location", "/trips/7")
	for want, outcome := range map[string]tools.Outcome{
		"204 No Content":                  answered(http.StatusNoContent, "", ""),
		"201 Created\nLocation: /trips/7": created,
		"299":                             answered(299, "", ""),
	} {
		var got toolResult
		call(protocol.V20251125, returning(outcome)).result(t, "CallToolResult", &got)
		if got.Content[0].Text != want {
			t.Errorf("got %q, want %q", got.Content[0].Text, want)
		}
	}
	var got toolResult // without any response
	call(protocol.V20251125, returning(tools.Outcome{})).result(t, "CallToolResult", &got)
	if source := got.Content[0].Text; !testkit.ContainsAll(source, "done") {
		t.Errorf("got %q, want the word done", source)
	}
}

func TestFailure_is_an_answer(t *testing.T) {
	problem := answered(404, "application/problem+json", `{"title":"No such trip"}`)
	problem.Failure = &tools.Failure{Kind: tools.Refused, Status: 404, Message: "GET /trips/{id} answered 404"}
	page := answered(502, "text/html; charset=utf-8", `<h1>Bad Gateway</h1>`)
	page.Failure = &tools.Failure{Kind: tools.Failed, Status: 502, Message: "502"}
	image := answered(500, "image/png", "x")
	image.Failure = &tools.Failure{Kind: tools.Failed, Status: 500, Message: "500"}
	long := answered(400, "text/plain", strings.Repeat("é", maxErrorBody))
	long.Failure = &tools.Failure{Kind: tools.Refused, Status: 400, Message: "400"}
	for _, c := range []struct {
		rule    string
		outcome tools.Outcome
		want    []string
	}{
		{"arguments", tools.Outcome{Failure: &tools.Failure{Kind: tools.InvalidArguments, Message: "/id: must be a string"}}, []string{"/id: must be a string"}},
		{"timeout", tools.Outcome{Failure: &tools.Failure{Kind: tools.TimedOut, Message: "too slow"}}, []string{"too slow"}},
		{"internal", tools.Outcome{Failure: &tools.Failure{Kind: tools.Internal, Message: "bad \xff byte"}}, []string{"bad \ufffd byte"}},
		{"problem", problem, []string{"GET /trips/{id} answered 404", `{"title":"No such trip"}`}},
		{"html-page", page, []string{"502"}},
		{"image", image, []string{"500"}},
		{"long", long, []string{"400", strings.Repeat("é", (maxErrorBody-len("…"))/2) + "…"}},
	} {
		for _, v := range revisions {
			t.Run(c.rule+"/"+v.String(), func(t *testing.T) {
				var got toolResult
				call(v, returning(c.outcome)).result(t, "CallToolResult", &got)
				var texts []string
				for _, block := range got.Content {
					texts = append(texts, block.Text)
				}
				if !got.IsError || strings.Join(texts, "|") != strings.Join(c.want, "|") || got.StructuredContent != nil {
					t.Errorf("got %+v", got)
				}
			})
		}
	}
}

func TestUnknown_tool_is_an_error_of_the_protocol(t *testing.T) {
	caller := returning(tools.Outcome{Failure: &tools.Failure{Kind: tools.UnknownTool, Message: `unknown tool "get_tirp"; did you mean "get_trip"?`}})
	for _, v := range revisions {
		a := call(v, caller).fault(t, 200, protocol.InvalidParams)
		if !strings.HasSuffix(a.Error.Message, `"get_trip"?`) {
			t.Errorf("%v: %q", v, a.Error.Message)
		}
	}
}

// Hidden tools are not suggested for unknown names, and are reported like unknown ones.
func TestHidden_tool_is_not_suggested(t *testing.T) {
	server := stocked(t, Options{})
	for name, nearest := range map[string]string{
		"get_phot":      "",
		"get_photo":     "",
		"list_station":  `"list_stations"`,
		"list_stations": "known",
	} {
		r := shelved(t, server, protocol.V20251125, "tools/call", `"name":"`+name+`","arguments":{}`)
		if nearest == "known" {
			r.result(t, "CallToolResult", new(any))
			continue
		}
		message := r.fault(t, 200, protocol.InvalidParams).Error.Message
		if !testkit.ContainsAll(message, `"`+name+`" `+nearest) || strings.HasSuffix(message, "?") != (nearest != "") {
			t.Errorf("%s: got %q, want the suggestion %q", name, message, nearest)
		}
	}
}

func TestCallParameters(t *testing.T) {
	for rule, c := range map[string]struct {
		params string
		code   int
		want   string // the arguments that reach the caller
	}{
		"object":      {`"name":"get_trip","arguments":{"id": "1", "n": 1.50}`, 0, `{"id": "1", "n": 1.50}`},
		"absent":      {`"name":"get_trip"`, 0, ``},
		"null":        {`"name":"get_trip","arguments":null`, 0, `null`},
		"array":       {`"name":"get_trip","arguments":[]`, protocol.InvalidParams, ``},
		"string":      {`"name":"get_trip","arguments":"{}"`, protocol.InvalidParams, ``},
		"no-name":     {`"arguments":{}`, protocol.InvalidParams, ``},
		"name-number": {`"name":1`, protocol.InvalidParams, ``},
		"escaped":     {`"name":"get\u005ftrip","arguments":{}`, 0, `{}`},
	} {
		for _, v := range revisions[:4] {
			t.Run(rule+"/"+v.String(), func(t *testing.T) {
				r := conformant(v, "tools/call", c.params)
				calls := 0
				r.caller = callerFunc(func(_ context.Context, tool string, arguments []byte) tools.Outcome {
					calls++
					if tool != "get_trip" || string(arguments) != c.want {
						t.Errorf("called %s with %s", tool, arguments)
					}
					return answered(200, "", "x")
				})
				r.fault(t, 200, c.code)
				if (calls == 1) != (c.code == 0) {
					t.Errorf("%d calls", calls)
				}
			})
		}
	}
}

func TestOutcome_is_released(t *testing.T) {
	for rule, failure := range map[string]*tools.Failure{
		"success": nil, "failure": {Kind: tools.Failed, Message: "x"}, "unknown": {Kind: tools.UnknownTool, Message: "x"},
	} {
		outcome := answered(200, "text/plain", "x")
		outcome.Failure, outcome.Result.Memory = failure, buffer.Get()
		call(protocol.V20251125, returning(outcome)).Send(t)
		if outcome.Result.Memory != nil {
			t.Errorf("%s: the buffer was kept", rule)
		}
	}
}

// Clients that use the same ids at the same time get their own answers.
func TestIsolation(t *testing.T) {
	const clients, calls = 32, 50
	server, toolset := New(Options{}), trains()
	var wait sync.WaitGroup
	for client := range clients {
		wait.Go(func() {
			for i := range calls {
				v := revisions[(client+i)%len(revisions)]
				own := fmt.Sprintf(`{"client":%d,"call":%d,"pad":"%s"}`, client, i, strings.Repeat("x", (client*37+i*101)%3000))
				r := conformant(v, "tools/call", `"name":"get_trip","arguments":`+own)
				r.server, r.tools = server, toolset
				var got toolResult
				a := parse(t, r.Send(t))
				if err := json.Unmarshal(a.Result, &got); err != nil {
					t.Error(err)
					return
				}
				if string(a.ID) != "7" || got.Content[0].Text != own {
					t.Errorf("client %d got %s", client, text.Cut(got.Content[0].Text, 100))
				}
			}
		})
	}
	wait.Wait()
}

// What a caller was given is its own: no later request writes into it.
func TestArguments_outlive_the_call(t *testing.T) {
	var kept []byte
	keep := callerFunc(func(_ context.Context, _ string, arguments []byte) tools.Outcome {
		if kept == nil {
			kept = arguments
		}
		return answered(http.StatusOK, "", "x")
	})
	own := `{"mine":"aaaaaaaa"}`
	for _, arguments := range []string{own, `{"your":"bbbbbbbb"}`, `{"your":"cccccccc"}`} {
		r := conformant(protocol.V20251125, "tools/call", `"name":"get_trip","arguments":`+arguments)
		r.caller = keep
		r.Send(t)
	}
	if string(kept) != own {
		t.Errorf("the arguments became %s", kept)
	}
}

// Handlers around the server may rewrite header values in place, as Caddy's
// header directive does.
func TestHeader_values_are_not_shared(t *testing.T) {
	first := call(protocol.V20251125, echo).Send(t)
	for _, values := range first.Header() {
		values[0] = "rewritten"
		_ = append(values, "more")
	}
	if got := call(protocol.V20251125, echo).Send(t).Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
}
