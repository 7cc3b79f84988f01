package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/client"
	"github.com/fairwayhq/fairway/tools"
)

// Call a tool of an API with a context that states the agent's goal.
func Example() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received := ocp.ReadIncoming(r.Header, ocp.ReadOptions{})
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"valid":%t}`, received.Valid())
	}))
	defer api.Close()
	toolset, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"Trips","version":"1"},"servers":[{"url":"`+api.URL+`"}],
		"paths":{"/trips":{"get":{"operationId":"listTrips","responses":{"200":{"description":"Trips"}}}}}}`), tools.BuildOptions{Name: "trips"})
	if err != nil {
		fmt.Println(err)
		return
	}
	agent := ocp.NewContext("travel_assistant")
	agent.SetGoal("find a trip", "")
	c, err := client.NewClient(toolset, client.ClientOptions{Context: ocp.NewSharedContext(agent)})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := c.Call(context.Background(), "listTrips", map[string]any{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer result.Release()
	fmt.Println(result.Status, string(result.Body))
	// Output: 200 {"valid":true}
}
