package files_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const canOpen = `{"elicitation":{"url":{}}}`

// pageReply is a message that a client gets for create_upload: a result, or a request for the user.
type pageReply struct {
	ID     any
	Method string
	Params struct{ Mode, URL, ElicitationID, Message string }
	Result struct {
		ResultType    string
		RequestState  string
		InputRequests map[string]struct {
			Method string
			Params struct{ Mode, URL, Message string }
		}
		Content []struct{ Text string }
		IsError bool
	}
}

func readReply(t *testing.T, message string) (r pageReply) {
	t.Helper()
	if err := json.Unmarshal([]byte(message[strings.Index(message, "{"):]), &r); err != nil {
		t.Fatalf("%v: %s", err, message)
	}
	return r
}

// wantResult checks that a message is the result with the URL, if that is known. Told is whether the model knows that the user has it.
func (r *pageReply) wantResult(t *testing.T, url string, told bool) {
	t.Helper()
	var c created
	if len(r.Result.Content) == 0 || r.Result.IsError || json.Unmarshal([]byte(r.Result.Content[0].Text), &c) != nil {
		t.Fatalf("no result: %+v", r)
	}
	if !strings.HasPrefix(c.Upload, "upl_") || !strings.Contains(c.Curl, c.Descriptor.URL) {
		t.Errorf("the model cannot use %+v", c)
	}
	if url != "" && url != c.Descriptor.URL {
		t.Errorf("the page is %s, and the result has %s", url, c.Descriptor.URL)
	}
	if last := r.Result.Content[len(r.Result.Content)-1].Text; strings.Contains(last, "agreed") != told {
		t.Errorf("the last text is %q, want it to say what the user did: %v", last, told)
	}
}

// create2026 calls create_upload in 2026-07-28.
func (s *uploadSite) create2026(capabilities, more string) pageReply {
	s.T.Helper()
	a := s.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_upload","arguments":`+forRaw+`,`+more+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+capabilities+`}}}`,
		"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "create_upload", "X-Test-User", "ada")
	return readReply(s.T, a.Body)
}

func TestCreateUpload_asks_the_user_in_2026_07_28(t *testing.T) {
	s := newUploads(t, "max_files 4", "", "")
	for _, action := range []string{"accept", "decline"} {
		first := s.create2026(canOpen, "")
		asked := first.Result.InputRequests["fairway_connection"]
		about := [...]string{first.Result.ResultType, asked.Method, asked.Params.Mode}
		if want := [...]string{"input_required", "elicitation/create", "url"}; about != want || first.Result.RequestState == "" || !strings.Contains(asked.Params.Message, "putRaw") {
			t.Fatalf("got %+v", first)
		}
		if strings.Contains(first.Result.RequestState, "upl_") {
			t.Error("the state is readable")
		}
		if page := s.send(http.MethodGet, asked.Params.URL, "", nil); page.Status != http.StatusOK {
			t.Errorf("the page: %d", page.Status)
		}
		again := s.create2026(canOpen, `"requestState":"`+first.Result.RequestState+`","inputResponses":{"fairway_connection":{"action":"`+action+`"}},`)
		again.wantResult(t, asked.Params.URL, action == "accept")
	}
	lost := s.create2026(canOpen, `"inputResponses":{"fairway_connection":{"action":"accept"}},`)
	lost.wantResult(t, "", true) // no second question
	without := s.create2026(`{"elicitation":{"form":{}}}`, "")
	without.wantResult(t, "", false)
	if text, isError := s.call("ada", "create_upload", forRaw); !isError || !strings.Contains(text, "too many") {
		t.Errorf("more than 4 uploads were created: %s", text)
	}
}

func TestCreateUpload_asks_the_user_in_2025_11_25(t *testing.T) {
	s := newUploads(t, "", "", "")
	const message = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"create_upload","arguments":` + forRaw + `}}`
	for name, response := range map[string]string{
		"accept": `"result":{"action":"accept"}`, "decline": `"result":{"action":"decline"}`, "error": `"error":{"code":-32603,"message":"no browser"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := &uploadSite{s.With(t), s.api}
			session := sitetest.SessionsOf(s.Site).BeginIn("2025-11-25", canOpen)
			lines := bufio.NewReader(sitetest.StreamsOf(s.Site).Open(http.MethodPost, message, append(session, "Content-Type", "application/json")...).Body)
			asked := readReply(t, sitetest.Message(t, lines))
			if asked.Method != "elicitation/create" || asked.Params.Mode != "url" || asked.Params.ElicitationID == "" {
				t.Fatalf("got %+v", asked)
			}
			id, _ := json.Marshal(asked.ID)
			header := map[string]string{session[0]: session[1], session[2]: session[3]}
			if a := s.Post("/mcp", `{"jsonrpc":"2.0","id":`+string(id)+`,`+response+`}`, header); a.Status != http.StatusAccepted {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			result := readReply(t, sitetest.Message(t, lines))
			result.wantResult(t, asked.Params.URL, name == "accept")
		})
	}
	for _, client := range [][2]string{{"2025-11-25", `{"elicitation":{}}`}, {"2025-06-18", canOpen}} {
		session := sitetest.SessionsOf(s.Site).BeginIn(client[0], client[1])
		result := readReply(t, s.Post("/mcp", message, map[string]string{session[0]: session[1], session[2]: session[3]}).Body)
		result.wantResult(t, "", false)
	}
}
