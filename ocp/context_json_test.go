package ocp

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// TestContext_JSON: a context that is written with encoding/json is read back whole.
func TestContext_JSON(t *testing.T) {
	full := exampleContext()
	long := exampleContext()
	for range MaxHistory {
		long.Record(CallEntry(time.Now(), "https://api.example.com/"+strings.Repeat("long/", 300), "op", "tool", 200))
	}
	for name, c := range map[string]*Context{
		"full": full, "new": NewContext("cli_tool"), "zero": {}, "longer than a session may be": long,
		"extra": {ContextID: "a", AgentType: "b", Session: &SessionMetadata{Extra: jsontext.Value(`{"x":[1]}`)}, History: []HistoryEntry{{Action: "a", Metadata: jsontext.Value(`{"y":null}`)}}},
	} {
		t.Run(name, func(t *testing.T) {
			type agent struct {
				Name    string
				Pointer *Context
				Value   Context
			}
			text, err := json.Marshal(agent{"x", c, *c})
			if err != nil {
				t.Fatal(err)
			}
			var again agent
			if err := json.Unmarshal(text, &again); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(again.Pointer, c) || !reflect.DeepEqual(again.Value, *c) {
				t.Errorf("got %+v\nwant %+v", again.Pointer, c)
			}
		})
	}
}

// TestContext_JSON_loses_nothing_silently: what cannot be kept is an error.
func TestContext_JSON_loses_nothing_silently(t *testing.T) {
	for name, c := range map[string]*Context{
		"not UTF-8":      {User: "\xff"},
		"year":           {CreatedAt: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"changes":        {RecentChanges: make([]string, maxRecentChanges+1)},
		"history":        {History: make([]HistoryEntry, MaxHistory+1)},
		"address":        {APISpecs: map[string]string{"a": "relative"}},
		"name of an API": {APISpecs: map[string]string{"a b": "https://a.example"}},
		"no object":      {Session: &SessionMetadata{Extra: jsontext.Value(`[1]`)}},
	} {
		if text, err := json.Marshal(c); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
	for text, field := range map[string]string{
		`{"user":7}`: "user", `{"history":{}}`: "history", `{"history":[7]}`: "history/0", `{"created_at":"yesterday"}`: "created_at",
		`{"recent_changes":[1]}`: "recent_changes", `{"api_specs":{"a":"b"}}`: "api_specs/a", `{"api_specs":{"a b":"c:d"}}`: "api_specs",
		`[]`: "context", `{"user":"a","user":"b"}`: "context", `{"session":{"interaction_count":"many"}}`: "session/interaction_count",
	} {
		c := Context{User: "before"}
		err := json.Unmarshal([]byte(text), &c)
		var fault Fault
		if !errors.As(err, &fault) || fault.Field != field || c.User != "before" {
			t.Errorf("%s: %v, %+v", text, err, c)
		}
	}
	for _, text := range []string{`{}`, `{"mood":"good"}`, `{"recent_changes":null,"history":null,"user":null}`, `{"created_at":"2025-01-01 00:00:00"}`, `null`} {
		if err := json.Unmarshal([]byte(text), new(Context)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
