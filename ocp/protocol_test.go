package ocp

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestOCP has one test for each MUST of OCP 1.0, under the section that has it. Packages tools
// and client have those about tools and calls.
func TestOCP(t *testing.T) {
	t.Run("Protocol_Definition", testProtocolDefinition)
	t.Run("Encoding_Requirements", testEncoding)
	t.Run("Error_Handling", testErrorHandling)
	t.Run("Client_Libraries", testClientLibraries)
	t.Run("Performance_Requirements", testPerformance)
	t.Run("Validation_Requirements", testValidation)
}

// completeExample is a message as in the text, HTTP Headers, Complete Example.
func completeExample() http.Header {
	return http.Header{
		HeaderContextID:   {"ocp-a1b2c3d4"},
		HeaderAgentType:   {"ide_coding_assistant"},
		HeaderCurrentGoal: {"debug_payment_error"},
		HeaderUser:        {"alice"},
		HeaderWorkspace:   {"payment-service"},
		HeaderSession:     {"eyJjb250ZXh0X2lkIjoib2NwLWExYjJjM2Q0In0="},
		HeaderVersion:     {"1.0"},
	}
}

func testProtocolDefinition(t *testing.T) {
	t.Run("HTTP_Headers/complete_example", func(t *testing.T) {
		in := ReadIncoming(completeExample(), ReadOptions{})
		c := in.Context()
		if len(in.Faults) > 0 || c == nil {
			t.Fatalf("got the context %+v and the faults %v, want a context without faults", c, in.Faults)
		}
		if got, want := [...]any{c.User, c.CurrentGoal, in.Judge().Verdict}, [...]any{"alice", "debug_payment_error", Usable}; got != want {
			t.Errorf("got %v, want %v; faults %v", got, want, in.Judge().Faults)
		}
	})
	t.Run("Required_Headers", func(t *testing.T) {
		for _, key := range []string{HeaderContextID, HeaderAgentType} {
			header := completeExample()
			delete(header, key)
			if in := ReadIncoming(header, ReadOptions{}); in.Valid() || in.Context() != nil {
				t.Errorf("valid without %s", key)
			}
		}
	})
	t.Run("Context_Schema/session_MUST_conform", func(t *testing.T) {
		schema := contextSchema(t)
		minimal := &Context{ContextID: "ocp-a1b2c3d4", AgentType: "cli_tool", CreatedAt: at("2025-11-16T10:30:00Z"), LastUpdated: at("2025-11-16T10:30:00Z")}
		full := exampleContext()
		full.ContextID = "ocp-a1b2c3d4" // the schema refuses the text's own ocp-debug-123
		for _, c := range []*Context{minimal, full, NewContext("cli_tool")} {
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(decoded(t, c.encode())))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s: %v", c.AppendJSON(nil), err)
			}
		}
	})
	t.Run("Context_Schema/matches_headers", func(t *testing.T) {
		header := make(http.Header)
		if err := exampleContext().SetHeaders(header); err != nil {
			t.Fatal(err)
		}
		if judgement := ReadIncoming(header, ReadOptions{}).Judge(); judgement.Verdict != Conforming {
			t.Error(judgement)
		}
	})
}

func decoded(t *testing.T, session string) []byte {
	t.Helper()
	s, err := NewSession(session, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func testEncoding(t *testing.T) {
	t.Run("1_UTF-8_JSON", func(t *testing.T) {
		c := NewContext("cli_tool")
		c.ContextSummary = "broken \xff text"
		if text := decoded(t, c.encode()); !utf8.Valid(text) {
			t.Errorf("%q", text)
		}
	})
	t.Run("3_standard_Base64", func(t *testing.T) {
		c := NewContext("cli_tool")
		c.ContextSummary = "??>>~~ÿ"
		if _, err := base64.StdEncoding.Strict().DecodeString(c.encode()); err != nil {
			t.Error(err)
		}
		c.ContextSummary = strings.Repeat("??>>~~ÿ", 200)
		if _, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(c.encode(), gzipPrefix)); err != nil {
			t.Error(err)
		}
	})
	t.Run("4_at_most_8_KB", func(t *testing.T) {
		c := NewContext("cli_tool")
		c.ContextSummary = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("0123456789abcdef"), 4000))
		for i := range 900 {
			c.Record(CallEntry(c.CreatedAt, "https://api.example.com/"+NewContext("x").ContextID, NewContext("x").ContextID, "", 200+i%300))
		}
		header := make(http.Header)
		if err := c.SetHeaders(header); err != nil {
			t.Fatal(err)
		}
		if n := len(header.Get(HeaderSession)); n > MaxSession {
			t.Errorf("%d bytes", n)
		}
		if _, err := c.EncodeSession(); err == nil {
			t.Error("EncodeSession does not say that it is too long")
		}
	})
	t.Run("timestamps_of_0_3_or_6_digits", func(t *testing.T) {
		for text, want := range map[string]string{
			"2025-11-16T10:30:00Z": "00Z", "2025-11-16T10:30:00.5Z": "00.500Z", "2025-11-16T10:30:00.123456789Z": "00.123456Z",
			"2025-11-16T10:30:00.0000001Z": "00Z", "2025-11-16T12:30:00.12+02:00": "00.120Z",
		} {
			if got := string(appendTime(nil, at(text))); got != `"2025-11-16T10:30:`+want+`"` {
				t.Errorf("%s is written %s", text, got)
			}
		}
	})
}

func testErrorHandling(t *testing.T) {
	for _, test := range []struct {
		name, key, value string
	}{
		{"Invalid_Headers", HeaderCurrentGoal, "\xff"},
		{"Oversized_Context", HeaderSession, strings.Repeat("eyAg", MaxSession/4+1)},
		{"Oversized_Header", HeaderWorkspace, strings.Repeat("w", 129)},
		{"Malformed_JSON", HeaderSession, encoded(`{"context_id":`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			header := completeExample()
			header[test.key] = []string{test.value}
			in := ReadIncoming(header, ReadOptions{})
			c := in.Context()
			if c == nil || c.ContextID != "ocp-a1b2c3d4" || c.User != "alice" {
				t.Fatalf("one bad header costs the others: %+v", c)
			}
			ignored := len(in.Faults) == 1 && in.Faults[0].Field == HeaderName(test.key)
			if test.key == HeaderSession {
				ignored = in.Judge().Verdict == Ignored
			}
			if !ignored {
				t.Errorf("not ignored: %v, %v", in.Faults, in.Judge())
			}
		})
	}
	t.Run("Missing_Context", func(t *testing.T) {
		if in := ReadIncoming(http.Header{"Accept": {"*/*"}}, ReadOptions{}); in != nil {
			t.Errorf("%+v", in)
		}
	})
}

func testClientLibraries(t *testing.T) {
	t.Run("1_Context_Management", func(t *testing.T) {
		c := NewContext("cli_tool")
		c.SetGoal("find the bug", "")
		header := make(http.Header)
		if err := c.SetHeaders(header); err != nil {
			t.Fatal(err)
		}
		if got := ReadIncoming(header, ReadOptions{Strict: true}).Context(); !reflect.DeepEqual(got, c) {
			t.Errorf("got %+v, want %+v", got, c)
		}
		if faults := c.Validate(true); len(faults) > 0 {
			t.Error(faults)
		}
		answer := make(http.Header)
		ReadIncoming(header, ReadOptions{}).Reply(Update{At: c.LastUpdated, ContextSummary: "found"}).SetReplyHeaders(answer)
		if !c.MergeHeaders(answer, nil, ReadOptions{}) || c.ContextSummary != "found" {
			t.Error("the answer's headers are not parsed")
		}
	})
}

func testPerformance(t *testing.T) {
	t.Run("Context_Compression", func(t *testing.T) {
		for length := 990; length <= 1030; length++ {
			c := NewContext("cli_tool")
			c.ContextSummary = "目"
			short := utf8.RuneCount(c.AppendJSON(nil))
			c.ContextSummary += strings.Repeat("目", length-short)
			if got := strings.HasPrefix(c.encode(), gzipPrefix); got != (length > 1000) {
				t.Errorf("%d characters: compressed is %v", length, got)
			}
		}
	})
}

func testValidation(t *testing.T) {
	t.Run("header_format", TestHeaders)
	t.Run("context_against_schema", TestContextFaults)
}
