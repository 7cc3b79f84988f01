package mcpadapter

import (
	"encoding/base64"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
)

type listedPrompt struct {
	Name, Title, Description string
	Arguments                []struct {
		Name, Title, Description string
		Required                 bool
	}
	Icons []any
}

func TestPrompts_are_listed(t *testing.T) {
	server := stocked(t, Options{})
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) {
			var got struct{ Prompts []listedPrompt }
			shelved(t, server, v, "prompts/list", "").result(t, "ListPromptsResult", &got)
			var names []string
			for _, p := range got.Prompts {
				names = append(names, p.Name)
			}
			if all := strings.Join(names, " "); all != "plan_trip read_fares look greeting make_conversation" {
				t.Fatalf("got %s", all)
			}
			plan, greeting := got.Prompts[0], got.Prompts[3]
			if got, want := [...]bool{plan.Title == "Plan a trip", len(plan.Icons) == 1}, [...]bool{v >= protocol.V20250618, v >= protocol.V20251125}; got != want {
				t.Errorf("title and icon: got %t, want %t: %+v", got, want, plan)
			}
			if len(plan.Arguments) != 2 || !plan.Arguments[0].Required || plan.Arguments[1].Required {
				t.Errorf("got the arguments %+v, want a required one and another", plan.Arguments)
			}
			if len(greeting.Arguments) != 2 || greeting.Description != "Greets." {
				t.Fatalf("got %+v, want 2 arguments and the description Greets.", greeting)
			}
			if a := greeting.Arguments[0]; a.Description != "Whom" || !a.Required {
				t.Errorf("got the argument %+v, want a required one, Whom", a)
			}
		})
	}
}

type gotPrompt struct {
	Description string
	Messages    []struct {
		Role    string
		Content struct {
			Type, Text, Data, MIMEType, URI, Name, Title string
			Resource                                     struct{ URI, MIMEType, Text, Blob string }
		}
	}
}

func TestPrompts_are_filled_in(t *testing.T) {
	server := stocked(t, Options{})
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) {
			var got gotPrompt
			shelved(t, server, v, "prompts/get", `"name":"plan_trip","arguments":{"city":"{{class}} \"{{{{\" \n ","class":"first","more":"x"}`).result(t, "GetPromptResult", &got)
			want := "From {{class}} \"{{{{\" \n , class first. Write {{braces}} as they are."
			if len(got.Messages) != 2 || got.Description != "Asks for a trip." {
				t.Fatalf("got %+v, want 2 messages and the description Asks for a trip.", got)
			}
			if text, role := got.Messages[0].Content.Text, got.Messages[1].Role; text != want || role != "assistant" {
				t.Errorf("got %q and a message of the %s, want %q and the assistant", text, role, want)
			}

			got = gotPrompt{}
			shelved(t, server, v, "prompts/get", `"name":"read_fares"`).result(t, "GetPromptResult", &got)
			fares, note, link := got.Messages[0].Content, got.Messages[1].Content, got.Messages[2].Content
			if fares.Type != "resource" {
				t.Fatalf("got %+v, want a resource", fares)
			}
			if got, want := [...]string{fares.Resource.Text, fares.Resource.MIMEType, fares.Resource.URI}, [...]string{"# Fares", "text/markdown", "docs:///fares"}; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if note.Resource.Text != "# Note" || note.Resource.URI != "docs:///note" {
				t.Errorf("got %+v", note)
			}
			if (link.Type == "resource_link") != (v >= protocol.V20250618) || link.URI != "docs:///fares" && link.Text != "fares: docs:///fares" {
				t.Errorf("got %+v", link)
			}

			got = gotPrompt{}
			shelved(t, server, v, "prompts/get", `"name":"look","arguments":{"id":"a/b"}`).result(t, "GetPromptResult", &got)
			image, audio, station := got.Messages[0].Content, got.Messages[1].Content, got.Messages[2].Content
			if raw, err := base64.StdEncoding.DecodeString(image.Data); err != nil || !strings.HasPrefix(string(raw), "\x89PNG") || image.MIMEType != "image/png" {
				t.Errorf("got %+v, %v", image, err)
			}
			if (audio.Type == "audio" && audio.Data == "UklGRg==") != (v >= protocol.V20250326) {
				t.Errorf("got %+v", audio)
			}
			if station.Resource.URI != "trains:///stations/a%2Fb" || station.Resource.Text != `{"asked":"/stations/a%2Fb"}` {
				t.Errorf("got %+v", station)
			}
		})
	}
}

func TestOperations_are_prompts(t *testing.T) {
	server := stocked(t, Options{})
	for _, v := range revisions {
		t.Run(v.String(), func(t *testing.T) {
			var got gotPrompt
			shelved(t, server, v, "prompts/get", `"name":"greeting","arguments":{"who":"Ada & Co","times":"2"}`).result(t, "GetPromptResult", &got)
			if len(got.Messages) != 1 || got.Description != "Greets." {
				t.Fatalf("got %+v, want one message and the description Greets.", got)
			}
			if m, want := got.Messages[0], "asked /greeting?who=Ada%20%26%20Co&times=2 in "; m.Role != "user" || m.Content.Text != want {
				t.Errorf("got %q of the %s, want %q of the user", m.Content.Text, m.Role, want)
			}
			got = gotPrompt{}
			shelved(t, server, v, "prompts/get", `"name":"make_conversation"`).result(t, "GetPromptResult", &got)
			if len(got.Messages) != 2 || got.Description != "Native" {
				t.Fatalf("got %+v, want 2 messages and the description Native", got)
			}
			if m := got.Messages[1]; m.Role != "assistant" || m.Content.Text != "ho" {
				t.Errorf("got %q of the %s, want ho of the assistant", m.Content.Text, m.Role)
			}
		})
	}
}

func TestPromptFaults(t *testing.T) {
	server := stocked(t, Options{})
	for rule, c := range map[string]struct {
		params string
		code   int
		want   string
	}{
		"no-name":            {``, protocol.InvalidParams, "params.name"},
		"unknown":            {`"name":"nothing"`, protocol.InvalidParams, "prompts/list"},
		"missing-argument":   {`"name":"plan_trip","arguments":{"class":"first"}`, protocol.InvalidParams, "plan_trip argument city begins"},
		"null-argument":      {`"name":"plan_trip","arguments":{"city":null}`, protocol.InvalidParams, "city"},
		"not-in-enum":        {`"name":"plan_trip","arguments":{"city":"x","class":"third"}`, protocol.InvalidParams, "class first second"},
		"number":             {`"name":"plan_trip","arguments":{"city":7}`, protocol.InvalidParams, "city string number"},
		"array":              {`"name":"plan_trip","arguments":[]`, protocol.InvalidParams, "params.arguments object array"},
		"resource-not-there": {`"name":"look","arguments":{"id":"none"}`, protocol.InvalidParams, "resource trains:///stations/none"},
		"resource-fails":     {`"name":"look","arguments":{"id":"broken"}`, protocol.InternalError, ""},
		"operation-refuses":  {`"name":"greeting","arguments":{"who":"x","times":"many"}`, protocol.InvalidParams, "times"},
		"operation-argument": {`"name":"greeting","arguments":{}`, protocol.InvalidParams, "who"},
	} {
		t.Run(rule, func(t *testing.T) {
			for _, v := range []protocol.Revision{protocol.V20251125, protocol.V20260728} {
				if rule == "no-name" && v.Stateless() {
					continue
				}
				if a := shelved(t, server, v, "prompts/get", c.params).fault(t, 200, c.code); !testkit.ContainsAll(a.Error.Message, c.want) {
					t.Errorf("%v: got %q, want the words %s", v, a.Error.Message, c.want)
				}
			}
		})
	}
}

func TestPrompt_is_bounded(t *testing.T) {
	template, err := library.ParseTemplate(strings.Repeat("{{a}}", 100))
	if err != nil {
		t.Fatal(err)
	}
	lib, err := library.NewLibrary(library.LibraryOptions{Prompts: []library.Prompt{{
		Name: "bomb", Arguments: []library.PromptArgument{{Name: "a"}},
		Messages: []library.PromptMessage{{Role: "user", Content: library.PromptContent{Type: "text", Text: template}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{})
	server.SetLibrary(lib)
	shelved(t, server, protocol.V20251125, "prompts/get", `"name":"bomb","arguments":{"a":"`+strings.Repeat("a", 1<<20)+`"}`).fault(t, 200, protocol.InvalidParams)
}

func TestNative_prompts_are_checked(t *testing.T) {
	server := stocked(t, Options{})
	for rule, body := range map[string]string{
		"no-messages":  `{"content":[]}`,
		"role":         `{"messages":[{"role":"system","content":{"type":"text","text":"x"}}]}`,
		"content":      `{"messages":[{"role":"user","content":{"type":"text"}}]}`,
		"content-kind": `{"messages":[{"role":"user","content":{"kind":"video"}}]}`,
		"no-json":      `{`,
	} {
		t.Run(rule, func(t *testing.T) {
			r := shelved(t, server, protocol.V20251125, "prompts/get", `"name":"make_conversation"`)
			r.caller = through(r.tools, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", content.NativeType)
				_, _ = w.Write([]byte(body))
			})
			r.fault(t, 200, protocol.InternalError)
		})
	}
}

func TestPrompt_files_are_read_strictly(t *testing.T) {
	head := "prompts:\n  - name: a\n"
	message := "    messages:\n      - role: user\n        content: hi\n"
	for rule, c := range map[string]struct{ file, want string }{
		"empty":            {"", "empty"},
		"scalar":           {"a", "line 1: prompts list"},
		"unknown-root":     {"prompt: []\n", "line 1: prompt prompts"},
		"unknown-member":   {head + message + "    tittle: x\n", "line 6: tittle"},
		"twice":            {head + "    name: b\n" + message, "line 3: duplicate 2"},
		"no-messages":      {head, "line 2: missing messages"},
		"empty-messages":   {head + "    messages: []\n", "line 2: messages empty"},
		"same-name":        {head + message + "  - name: a\n" + message, "line 6: another prompt a"},
		"role":             {head + "    messages:\n      - role: system\n        content: hi\n", "line 4: role user assistant system"},
		"type":             {head + "    messages:\n      - role: user\n        content: {type: video}\n", "line 5: type video"},
		"no-type":          {head + "    messages:\n      - role: user\n        content: {text: hi}\n", `line 5: type ""`},
		"unknown-argument": {head + "    messages:\n      - role: user\n        content: hi {{who}}\n", "line 2: message 1 {{who}}"},
		"open-braces":      {head + "    messages:\n      - role: user\n        content: hi {{who\n", "line 5: "},
		"argument-name":    {head + message + "    arguments: [{title: x}]\n", "line 6: missing name"},
		"argument-twice":   {head + message + "    arguments: [{name: x}, {name: x}]\n", "line 2: argument x"},
		"required":         {head + message + "    arguments:\n      - name: x\n        required: perhaps\n", "line 8: true false"},
		"enum-and-values":  {head + message + "    arguments: [{name: x, enum: [a], values: [a]}]\n", "line 6: enum values"},
		"icon":             {head + message + "    icons: [{src: 'javascript:x'}]\n", "line 6: source icon"},
		"base64":           {head + "    messages:\n      - role: user\n        content: {type: image, mimeType: image/png, data: '?'}\n", "line 5: Base64"},
		"media-type":       {head + "    messages:\n      - role: user\n        content: {type: image, mimeType: text/plain, data: AAAA}\n", "line 5: mimeType image text/plain"},
		"no-data":          {head + "    messages:\n      - role: user\n        content: {type: image, mimeType: image/png}\n", "line 5: data file missing"},
		"missing-file":     {head + "    messages:\n      - role: user\n        content: {type: image, file: nothing.png}\n", "line 5: nothing.png"},
		"alias":            {"prompts:\n  - &a\n    name: a\n", "line 2: anchors"},
		"two-documents":    {"prompts: []\n---\nprompts: []\n", "one YAML document"},
		"yaml":             {"prompts: [\n", "line 1:"},
		"yaml-indent":      {"prompts:\n  - name: a\n   title: b\n", "line 3: '-'"},
		"yaml-open":        {"prompts:\n  - name: [a\n\n", "line 2: ',' ']'"},
		"yaml-quote":       {"prompts:\n  - name: 'a\n  - name: b\n", "line 2: end"},
		"yaml-first":       {"a: b: c\n", "line 1: mapping"},
		"json":             {"[\n{\"name\":\"a\",\n\"title\":7,\n\"mesages\":[]}]", "line 4: mesages"},
		"json-twice":       {"[\n{\"name\":\"a\",\n\"name\":\"b\"}]", "line 2: "},
		"json-open":        {"[\n{", "line 2: "},
		"json-more":        {"[] []", "line 1: "},
		"too-large":        {strings.Repeat("#", library.MaxPromptFile+1), "larger bytes"},
		"too-deep":         {strings.Repeat("[", 200) + strings.Repeat("]", 200), "deeper"},
	} {
		t.Run(rule, func(t *testing.T) {
			_, err := library.ReadPrompts([]byte(c.file), func(string) ([]byte, error) { return nil, os.ErrNotExist })
			if err == nil || !testkit.ContainsAll(err.Error(), c.want) {
				t.Errorf("got %v, want the words %s", err, c.want)
			}
		})
	}
}

func TestPrompts_in_JSON(t *testing.T) {
	data, err := os.ReadFile("../testdata/prompts/trains.json")
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := library.ReadPrompts(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := prompts[0].Messages[0].Content.Text.Fill(map[string]string{"who": "Ada"}); got != "Hello Ada 🚂" {
		t.Errorf("got %q", got)
	}
}

type completed struct {
	Completion struct {
		Values  []string
		Total   int
		HasMore bool
	}
}

func TestCompletion(t *testing.T) {
	server := stocked(t, Options{})
	prompt := func(name string) string { return `"ref":{"type":"ref/prompt","name":"` + name + `"}` }
	resource := func(uri string) string { return `"ref":{"type":"ref/resource","uri":"` + uri + `"}` }
	argument := func(name, value string) string { return `,"argument":{"name":"` + name + `","value":"` + value + `"}` }
	for rule, c := range map[string]struct{ params, want string }{
		"all":                {prompt("plan_trip") + argument("city", ""), "Berlin Bern Paris Lisbon"},
		"begins":             {prompt("plan_trip") + argument("city", "ber"), "Berlin Bern"},
		"begins-then-within": {prompt("plan_trip") + argument("city", "li"), "Lisbon Berlin"},
		"nothing":            {prompt("plan_trip") + argument("city", "x"), ""},
		"enum":               {prompt("plan_trip") + argument("class", ""), "first second"},
		"no-values":          {prompt("look") + argument("id", ""), ""},
		"operation":          {prompt("greeting") + argument("times", ""), "1 2 3"},
		"template":           {resource("trains:///stations{?kind,open,limit}") + argument("kind", "b"), "branch"},
		"boolean":            {resource("trains:///stations{?kind,open,limit}") + argument("open", "t"), "true"},
		"folder":             {resource("guide://all/{+path}") + argument("path", "deep/"), "deep/a b.txt"},
		"resource":           {resource("docs:///fares") + argument("x", ""), ""},
		"context":            {prompt("plan_trip") + argument("city", "p") + `,"context":{"arguments":{"class":"first"}}`, "Paris"},
	} {
		for _, v := range revisions {
			t.Run(v.String()+"/"+rule, func(t *testing.T) {
				var got completed
				shelved(t, server, v, "completion/complete", c.params).result(t, "CompleteResult", &got)
				if all := strings.Join(got.Completion.Values, " "); all != c.want || got.Completion.HasMore || got.Completion.Total != len(got.Completion.Values) {
					t.Errorf("got %+v", got)
				}
			})
		}
	}
	for rule, params := range map[string]string{
		"no-ref":           argument("x", "")[1:],
		"no-argument":      prompt("plan_trip"),
		"no-value":         prompt("plan_trip") + `,"argument":{"name":"city"}`,
		"unknown-prompt":   prompt("nothing") + argument("x", ""),
		"unknown-argument": prompt("plan_trip") + argument("x", ""),
		"unknown-template": resource("x://{y}") + argument("y", ""),
		"unknown-variable": resource("guide://all/{+path}") + argument("y", ""),
		"unknown-type":     `"ref":{"type":"ref/tool"}` + argument("x", ""),
		"context":          prompt("plan_trip") + argument("city", "p") + `,"context":{"arguments":{"class":7}}`,
	} {
		t.Run(rule, func(t *testing.T) {
			shelved(t, server, protocol.V20251125, "completion/complete", params).fault(t, 200, protocol.InvalidParams)
		})
	}
}

func TestCompletion_has_at_most_a_hundred_values(t *testing.T) {
	var values []string
	for range 101 {
		values = append(values, "value")
	}
	lib, err := library.NewLibrary(library.LibraryOptions{Prompts: []library.Prompt{{
		Name: "p", Arguments: []library.PromptArgument{{Name: "a", Values: values}},
		Messages: []library.PromptMessage{{Role: "user", Content: library.PromptContent{Type: "text"}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	server := New(Options{})
	server.SetLibrary(lib)
	var got completed
	shelved(t, server, protocol.V20260728, "completion/complete", `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`).result(t, "CompleteResult", &got)
	if c := got.Completion; len(c.Values) != 100 || c.Total != 101 || !c.HasMore {
		t.Errorf("%d values, %d in all, more: %v", len(c.Values), c.Total, c.HasMore)
	}
}
