package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Clients of TestIsolation, and the calls of each.
const (
	isolationClients = 48
	isolationCalls   = 25
)

// TestIsolation has many clients call the same tool at once with the same
// JSON-RPC id and arguments of their own: each reads its own answer, in every
// revision and whether it asks with sessions, without, or in batches.
func TestIsolation(t *testing.T) {
	g := startFixture(t)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: isolationClients}}
	t.Cleanup(client.CloseIdleConnections)

	var clients sync.WaitGroup
	for n := range isolationClients {
		clients.Go(func() {
			c := isolationClient{url: g.url + "/mcp", http: client, revision: []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}[n%4]}
			if n%8 < 4 && c.revision != "2026-07-28" {
				if err := c.initialize(t.Context()); err != nil {
					t.Errorf("client %d: %v", n, err)
					return
				}
			}
			for i := range isolationCalls {
				if err := c.call(t.Context(), fmt.Sprintf("region-%d-%d", n, i)); err != nil {
					t.Errorf("client %d of %s: %v", n, c.revision, err)
					return
				}
			}
		})
	}
	clients.Wait()
}

// An isolationClient asks everything with the id 1.
type isolationClient struct {
	url, revision, session string
	http                   *http.Client
}

func (c *isolationClient) initialize(ctx context.Context) error {
	header, body, err := c.post(ctx, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+c.revision+
		`","capabilities":{},"clientInfo":{"name":"fairway-test","version":"1"}}}`, nil)
	if err != nil {
		return err
	}
	if !strings.Contains(body, `"protocolVersion":"`+c.revision+`"`) {
		return fmt.Errorf("initialize: %s", body)
	}
	c.session = header.Get("Mcp-Session-Id")
	return nil
}

// call asks for the region and wants it in the only answer to the id 1. In
// 2025-03-26 it is one message of a batch.
func (c *isolationClient) call(ctx context.Context, region string) error {
	header := map[string]string{}
	meta := ""
	if c.revision == "2026-07-28" {
		header["Mcp-Method"], header["Mcp-Name"], header["Mcp-Param-Region"] = "tools/call", "test_header_parameter", region
		meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_header_parameter","arguments":{"region":"` + region + `"}` + meta + `}}`
	if c.revision == "2025-03-26" {
		message = "[" + message + `,{"jsonrpc":"2.0","method":"notifications/initialized"}]`
	}
	_, body, err := c.post(ctx, message, header)
	if err != nil {
		return err
	}
	var answer struct {
		ID     int        `json:"id"`
		Result callOutput `json:"result"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimPrefix(body, "["), "]")), &answer); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	if content := answer.Result.Content; answer.ID != 1 || len(content) != 1 || content[0].Text != "The region is "+region+"." {
		return fmt.Errorf("%s is answered with %s", region, body)
	}
	return nil
}

func (c *isolationClient) post(ctx context.Context, message string, header map[string]string) (http.Header, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(message))
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Mcp-Protocol-Version", c.revision)
	if c.session != "" {
		request.Header.Set("Mcp-Session-Id", c.session)
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return response.Header, string(body), err
}

// TestAskIsolation has the server ask many clients at once, through the same tool
// and with ids that are the same for all: each is asked what is for its own user,
// and gets what its own user said.
func TestAskIsolation(t *testing.T) {
	g := startFixture(t)
	var clients sync.WaitGroup
	for n := range isolationClients {
		clients.Go(func() {
			user := fmt.Sprintf("user-%d", n)
			var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: g.url + "/mcp"}
			revision := []string{"2025-06-18", "2025-11-25", "2026-07-28", "2026-07-28"}[n%4]
			if n%8 == 0 {
				transport = &mcp.SSEClientTransport{Endpoint: g.url + "/mcp/sse"}
			}
			if err := askFor(transport, revision, user); err != nil {
				t.Errorf("%s of %s: %v", user, revision, err)
			}
		})
	}
	clients.Wait()
}

// askFor has a user asked several times.
func askFor(transport mcp.Transport, revision, user string) error {
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: user, Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if r.Params.Message != "For "+user {
				return nil, fmt.Errorf("%s was asked %q", user, r.Params.Message)
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"username": user, "email": user + "@example.com"}}, nil
		},
	})
	session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		return err
	}
	defer session.Close()
	for range 5 {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "test_elicitation", Arguments: map[string]any{"message": "For " + user}})
		if err != nil {
			return err
		}
		answer, err := json.Marshal(result.Content)
		if err != nil {
			return err
		}
		if !strings.Contains(string(answer), user+"@example.com") {
			return fmt.Errorf("answered with %s", answer)
		}
	}
	return nil
}
