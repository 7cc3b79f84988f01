package mcpadapter

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/elicit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/tools"
)

// What the server asks and does not wait for any more it takes back, so that no dialog
// stays open in front of the user.
func TestQuestion_is_taken_back(t *testing.T) {
	for rule, c := range map[string]struct {
		timeout time.Duration
		end     func(t *testing.T, c *askedClient)
		reason  string
		answer  bool // the request is answered after it
	}{
		"timeout": {time.Millisecond, func(*testing.T, *askedClient) {}, errAskTimeout.Error(), true},
		"canceled": {time.Hour, func(t *testing.T, c *askedClient) {
			c.endpoint.do(t, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
				map[string]string{versionHeader: c.version.String(), sessionHeader: c.session})
		}, session.ErrCanceled.Error(), false},
		"closing": {time.Hour, func(_ *testing.T, c *askedClient) { c.endpoint.server.Close() }, errClosing.Error(), true},
	} {
		t.Run(rule, func(t *testing.T) {
			e := serveAPI(t, askingAPI)
			e.server.options.AskTimeout = c.timeout
			client := newClient(t, e, protocol.V20251125, askable)
			r := conformant(protocol.V20251125, "tools/call", `"name":"native","arguments":{}`)
			r.header[sessionHeader] = client.session
			stream := e.open(t, "POST", "/mcp", r.body, r.header)
			_, _, asked := stream.event()
			c.end(t, client)
			_, _, data := stream.event()
			var question struct{ ID, Method string }
			var taken struct {
				Method string
				Params struct{ RequestID, Reason string }
			}
			if json.Unmarshal([]byte(asked), &question) != nil || json.Unmarshal([]byte(data), &taken) != nil {
				t.Fatalf("%s, then %s", asked, data)
			}
			validateMessage(t, protocol.V20251125, "CancelledNotification", []byte(data))
			if taken.Method != "notifications/cancelled" || taken.Params.RequestID != question.ID || !strings.Contains(taken.Params.Reason, c.reason) {
				t.Errorf("%s, then %s", asked, data)
			}
			rest, err := io.ReadAll(stream.lines)
			if err != nil || strings.Contains(string(rest), `"id":7`) != c.answer {
				t.Errorf("then %q, %v", rest, err)
			}
		})
	}
}

// Over standard input and output it is the same.
func TestStdio_question_is_taken_back(t *testing.T) {
	toolset := buildTools(t, payments, tools.BuildOptions{Name: "payments"})
	fromClient, in := io.Pipe()
	out, toClient := io.Pipe()
	term := &terminal{t, in, bufio.NewReader(out), make(chan error, 1)}
	go func() {
		term.ended <- New(Options{}).ServeStdio(t.Context(), fromClient, toClient, siteOf(toolset, api{toolset, askingAPI}))
		toClient.Close()
	}()
	t.Cleanup(func() { in.Close(); out.Close() })
	term.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + askable + `,"clientInfo":{"name":"c","version":"1"}}}`)
	term.read()
	term.write(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"native","arguments":{}}}`)
	var question struct{ ID, Method string }
	if asked := term.read(); json.Unmarshal([]byte(asked), &question) != nil || question.Method != elicit.MethodElicit {
		t.Fatalf("asked %s", asked)
	}
	term.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	if line := term.read(); !strings.Contains(line, `"notifications/cancelled","params":{"requestId":"`+question.ID+`"`) {
		t.Errorf("got %s", line)
	}
	term.write(`{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	if line := term.read(); !strings.Contains(line, `"id":8`) {
		t.Errorf("a canceled request was answered: %s", line)
	}
}
