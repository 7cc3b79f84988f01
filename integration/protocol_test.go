package integration

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// A toolResult is what a tool call came to, whatever the protocol.
type toolResult struct {
	failed  bool
	text    string          // all text of the answer, or of the error
	value   json.RawMessage // the structured answer, nil if there is none
	kind    string          // the type of the first content block (MCP)
	payload string          // its Base64 data, if it has any (MCP)
}

// An rpcError is the error of a JSON-RPC answer.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// rpcAnswer is a JSON-RPC answer, with the results of the methods tested here.
type rpcAnswer struct {
	ID     json.RawMessage `json:"id"`
	Error  *rpcError       `json:"error"`
	Result *struct {
		Tools []struct {
			Name        string          `json:"name"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
			Data string `json:"data"`
		} `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           bool            `json:"isError"`
	} `json:"result"`
}

// postMCP posts a body to the MCP endpoint in revision 2025-11-25.
func (g *gateway) postMCP(t *testing.T, body string) (answer, rpcAnswer) {
	t.Helper()
	a := g.send(t, http.MethodPost, "/mcp", "application/json", strings.NewReader(body),
		map[string]string{"MCP-Protocol-Version": "2025-11-25"})
	var rpc rpcAnswer
	if len(a.body) > 0 && a.body[0] == '{' {
		if err := json.Unmarshal(a.body, &rpc); err != nil {
			t.Fatalf("the answer is not JSON: %v\n%.500s", err, a.body)
		}
	}
	return a, rpc
}

// callMCP calls a tool over MCP. Arguments are JSON.
func (g *gateway) callMCP(t *testing.T, tool, arguments string) toolResult {
	t.Helper()
	a, rpc := g.postMCP(t, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`)
	if rpc.Error != nil {
		return toolResult{failed: true, text: rpc.Error.Message}
	}
	if rpc.Result == nil || a.status != http.StatusOK {
		t.Fatalf("tools/call %s: %d %.500s", tool, a.status, a.body)
	}
	r := toolResult{failed: rpc.Result.IsError, value: rpc.Result.StructuredContent}
	for i, block := range rpc.Result.Content {
		if i == 0 {
			r.kind, r.payload = block.Type, block.Data
		}
		r.text += block.Text
	}
	return r
}

// toolNames lists the tools over MCP.
func (g *gateway) toolNames(t *testing.T) []string {
	t.Helper()
	a, rpc := g.postMCP(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if rpc.Result == nil {
		t.Fatalf("tools/list: %d %.500s", a.status, a.body)
	}
	names := make([]string, len(rpc.Result.Tools))
	for i, tool := range rpc.Result.Tools {
		names[i] = tool.Name
	}
	return names
}

// otcID returns the id under which OTC lists the tool.
func (g *gateway) otcID(t *testing.T, tool string) string {
	t.Helper()
	a := g.send(t, http.MethodGet, "/otc/tools", "", nil, nil)
	var list struct {
		Tools []struct {
			ID string `json:"id"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		t.Fatalf("GET /otc/tools: %d %v\n%.500s", a.status, err, a.body)
	}
	for _, listed := range list.Tools {
		_, name, _ := strings.Cut(listed.ID, ".")
		if name, _, _ = strings.Cut(name, "@"); name == tool {
			return listed.ID
		}
	}
	t.Fatalf("OTC does not list %s: %.500s", tool, a.body)
	return ""
}

// callOTC calls a tool over OTC. Arguments are JSON.
func (g *gateway) callOTC(t *testing.T, tool, arguments string) toolResult {
	t.Helper()
	id := rand.Text() // each is a call of its own
	a := g.send(t, http.MethodPost, "/otc/call", "application/json",
		strings.NewReader(`{"request":{"call_id":"`+id+`","tool_id":"`+g.otcID(t, tool)+`","input":`+arguments+`}}`), nil)
	var response struct {
		CallID  string `json:"call_id"`
		Success *bool  `json:"success"`
		Output  struct {
			Value json.RawMessage `json:"value"`
			Error *struct {
				Message   string `json:"message"`
				Developer string `json:"developer_message"`
			} `json:"error"`
		} `json:"output"`
	}
	if err := json.Unmarshal(a.body, &response); err != nil {
		t.Fatalf("POST /otc/call: %d %v\n%.500s", a.status, err, a.body)
	}
	if response.Success == nil || response.CallID != id || *response.Success == (response.Output.Error != nil) {
		t.Fatalf("POST /otc/call: %d, not an answer to a call: %.500s", a.status, a.body)
	}
	r := toolResult{failed: !*response.Success, value: response.Output.Value, text: string(response.Output.Value)}
	if response.Output.Error != nil {
		r.text = response.Output.Error.Message + " " + response.Output.Error.Developer
	}
	return r
}
