package connections_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// client is a client of 2025-11-25 with a session and an open stream.
type client struct {
	*sitetest.Site
	header []string
	stream *bufio.Scanner
}

func newClient(s *sitetest.Site, user string) *client {
	s.T.Helper()
	const body = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` + canOpen + `,"clientInfo":{"name":"test","version":"1"}}}`
	begun := s.Request(http.MethodPost, "/mcp", body, "Accept", "application/json, text/event-stream", "X-Test-User", user)
	c := &client{Site: s, header: []string{"Mcp-Session-Id", begun.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25", "X-Test-User", user}}
	r, err := http.NewRequest(http.MethodGet, s.URL+"/mcp", nil)
	if err != nil {
		s.T.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(c.header); i += 2 {
		r.Header.Set(c.header[i], c.header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		s.T.Fatalf("the stream: %s", response.Status)
	}
	c.stream = bufio.NewScanner(response.Body)
	return c
}

// elicited calls listTrips. It returns the elicitation that the call needs.
func (c *client) elicited() (id, link string) {
	c.T.Helper()
	answer := c.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"listTrips","arguments":{}}}`,
		append([]string{"Accept", "application/json, text/event-stream"}, c.header...)...).Body
	var got struct {
		Error struct {
			Data struct {
				Elicitations []struct{ URL, ElicitationID string }
			}
		}
	}
	if err := json.NewDecoder(strings.NewReader(answer[strings.Index(answer, "{"):])).Decode(&got); err != nil || len(got.Error.Data.Elicitations) != 1 {
		c.T.Fatalf("no elicitation: %s", answer)
	}
	return got.Error.Data.Elicitations[0].ElicitationID, got.Error.Data.Elicitations[0].URL
}

// completed returns the id in the next message of the stream.
func (c *client) completed() string {
	c.T.Helper()
	for c.stream.Scan() {
		data, ok := strings.CutPrefix(c.stream.Text(), "data: ")
		if !ok || data == "" {
			continue
		}
		var got struct {
			Method string
			Params struct{ ElicitationID string }
		}
		if err := json.Unmarshal([]byte(data), &got); err != nil || got.Method != "notifications/elicitation/complete" {
			c.T.Fatalf("another message: %s", data)
		}
		return got.Params.ElicitationID
	}
	c.T.Fatal("the stream has ended")
	return ""
}

// TestConnection_of_2025_11_25_completes_the_elicitation reads the next message of each session's stream, which would be the
// notification for another session if that were sent to it.
func TestConnection_of_2025_11_25_completes_the_elicitation(t *testing.T) {
	p := newThirdParty(t)
	s := start(t, p, options{})
	first, second, other := newClient(s, "ann"), newClient(s, "ann"), newClient(s, "bob")
	ann, bob := newBrowser(t, "ann"), newBrowser(t, "bob")

	wantFirst, link := first.elicited()
	wantOther, otherLink := other.elicited()
	ann.connect(s, link)
	if got := first.completed(); got != wantFirst {
		t.Errorf("the session of the call got %q, want %q", got, wantFirst)
	}
	bob.connect(s, otherLink)
	if got := other.completed(); got != wantOther {
		t.Errorf("another user got %q, want %q", got, wantOther)
	}
	if got := ann.do(http.MethodPost, s.URL+"/connections/disconnect", url.Values{"provider": {"acme"}, "label": {"main"}}); got.status != http.StatusSeeOther {
		t.Fatalf("disconnect: %d %s", got.status, got.body)
	}
	wantSecond, link := second.elicited()
	ann.connect(s, link)
	if got := second.completed(); got != wantSecond {
		t.Errorf("another session of the user got %q, want %q", got, wantSecond)
	}
}
