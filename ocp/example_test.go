package ocp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/client"
	"github.com/fairwayhq/fairway/tools"
)

// bakery is an API that answers with context, and its document.
func bakery() *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"openapi":"3.1.0","info":{"title":"Bakery","version":"1"},"paths":{"/loaves/{id}":{"get":{
			"operationId":"getLoaf","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}}],
			"responses":{"200":{"description":"A loaf"}}}}}}`)
	})
	mux.HandleFunc("GET /loaves/{id}", func(w http.ResponseWriter, r *http.Request) {
		if in := ocp.ReadIncoming(r.Header, ocp.ReadOptions{}); in != nil && in.Valid() {
			in.Reply(ocp.Update{At: time.Now(), ContextSummary: "the loaf is fresh"}).SetReplyHeaders(w.Header())
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":%s,"kind":"rye"}`, r.PathValue("id"))
	})
	return httptest.NewServer(mux)
}

// A client finds the tools of an API by the address of its document, and calls
// them on behalf of an agent.
func Example_client() {
	server := bakery()
	defer server.Close()
	ctx := context.Background()

	agent := ocp.NewContext("shopping_assistant")
	agent.SetGoal("buy bread", "")
	shared := ocp.NewSharedContext(agent)

	discovery := client.Discovery{Context: shared}
	toolset, err := discovery.Tools(ctx, "bakery", server.URL+"/openapi.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	caller, err := client.NewClient(toolset, client.ClientOptions{Context: shared})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := caller.Call(ctx, "getLoaf", map[string]any{"id": 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", result.Body)

	now := shared.Context()
	fmt.Println(now.ContextSummary)
	fmt.Println(now.History[0].ToolName, now.History[0].Result)
	fmt.Println(now.APISpecs["bakery"] == server.URL+"/openapi.json")
	// Output:
	// {"id":7,"kind":"rye"}
	// the loaf is fresh
	// bakery.getLoaf success
	// true
}

// A call that does not fit the tool's schema is never sent; the error says what to put
// right, and errors.As finds the failure in it.
func ExampleClient_Call_invalid() {
	server := bakery()
	defer server.Close()
	var discovery client.Discovery
	toolset, err := discovery.Tools(context.Background(), "bakery", server.URL+"/openapi.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	caller, err := client.NewClient(toolset, client.ClientOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = caller.Call(context.Background(), "getLoaf", map[string]any{"id": "seven"})
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		fmt.Println(failure.Kind)
	}
	fmt.Println(err)
	// Output:
	// invalid
	// invalid arguments for getLoaf: /id: must be integer, and is string
}

// Any http.Client carries an agent's context with a Transport.
func ExampleTransport() {
	server := bakery()
	defer server.Close()
	shared := ocp.NewSharedContext(ocp.NewContext("shopping_assistant"))
	httpClient := &http.Client{Transport: &ocp.Transport{Context: shared, Merge: true}}
	response, err := httpClient.Get(server.URL + "/loaves/7")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer response.Body.Close()
	fmt.Println(shared.Context().ContextSummary)
	// Output:
	// the loaf is fresh
}

// A server reads what a request says of its agent. The session is decoded when
// its Context is read.
func ExampleReadIncoming() {
	header := http.Header{}
	header.Set("OCP-Context-ID", "ocp-a1b2c3d4")
	header.Set("OCP-Agent-Type", "cli_tool")
	header.Set("OCP-Session", "eyJjb250ZXh0X2lkIjoib2NwLWExYjJjM2Q0IiwiY3VycmVudF9nb2FsIjoiYnV5IGJyZWFkIn0=")
	header.Set("OCP-User", "this name is much longer than the sixty-four characters that a user may have")

	in := ocp.ReadIncoming(header, ocp.ReadOptions{})
	fmt.Println(in.Context().AgentType, "wants to", in.Context().CurrentGoal)
	fmt.Println(in.Faults[0])
	fmt.Println(in.Judge().Verdict, in.Judge().Faults)
	// Output:
	// cli_tool wants to buy bread
	// OCP-User: longer than allowed
	// usable [agent_type: missing created_at: missing last_updated: missing]
}

// A context goes into the headers of a request by itself too.
func ExampleContext_SetHeaders() {
	agent := ocp.NewContext("cli_tool")
	agent.ContextID = "ocp-a1b2c3d4"
	agent.CurrentGoal = "buy bread"
	header := http.Header{}
	if err := agent.SetHeaders(header); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(header.Get("OCP-Context-ID"), header.Get("OCP-Current-Goal"), header.Get("OCP-Version"))
	// Output:
	// ocp-a1b2c3d4 buy bread 1.0
}
