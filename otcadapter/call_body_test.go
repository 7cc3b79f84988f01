package otcadapter

import (
	"reflect"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// TestCall_body_read compares the reader of bodies with decoding by reflection: what it reads is the
// same, and what it does not read is left to the decoder.
func TestCall_body_read(t *testing.T) {
	for _, test := range []struct {
		body string
		read bool // whether the reader takes it
	}{
		{`{}`, true},
		{`{"tool_id":"A.b@1.0.0","call_id":"1","trace_id":"2","input":{"a":[1]},"context":{"user_id":"u"}}`, true},
		{`{"$schema":"s","request":{"tool_id":"A.b","inputs":{}}}`, true},
		{` { "request" : { "tool_id" : "é" , "input" : null } , "other" : 1 } `, true},
		{`{"request":{},"tool_id":"A.b"}`, true},
		{`{"request":{"request":{"tool_id":"A.b"}}}`, true},
		{`{"\u0074ool_id":"A.b"}`, true},
		{`{"TOOL_ID":"A.b"}`, true},
		{`{"tool_id":"A\u002eb"}`, false},
		{`{"tool_id":null}`, false},
		{`{"tool_id":1}`, false},
		{`{"request":null}`, false},
		{`{"request":[]}`, false},
		{`{"$schema":{}}`, false},
		{`{"tool_id":"A.b","tool_id":"A.c"}`, false},
		{`{"input":{"a":1,"a":2}}`, false},
		{`[]`, false},
		{`{"tool_id":"A.b"`, false},
	} {
		var decoded, read callBody
		err := strictjson.Unmarshal([]byte(test.body), &decoded)
		walk, invalid := strictjson.Object([]byte(test.body))
		ok := invalid == nil && read.read(walk, new(callFields))
		if ok != test.read {
			t.Errorf("%s: read is %t, want %t", test.body, ok, test.read)
		}
		if ok && (err != nil || !reflect.DeepEqual(read, decoded)) {
			t.Errorf("%s: read %+v, want %+v (%v)", test.body, read, decoded, err)
		}
	}
}

// TestCall_body_owns_its_bytes: the body is in a buffer that the next request reuses.
func TestCall_body_owns_its_bytes(t *testing.T) {
	body := []byte(`{"request":{"tool_id":"A.b","input":{"a":1},"context":{"user_id":"u"}}}`)
	request, f := parseCall(body)
	if f != nil {
		t.Fatal(f)
	}
	clear(body)
	got := [...]string{request.toolID, string(request.input), request.context.userID, string(request.context.raw)}
	if want := [...]string{"A.b", `{"a":1}`, "u", `{"user_id":"u"}`}; got != want {
		t.Errorf("after the body was overwritten: got %q, want %q", got, want)
	}
}
