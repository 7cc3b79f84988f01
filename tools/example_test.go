package tools_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/fairwayhq/fairway/tools"
)

const trips = `{"openapi":"3.1.0","info":{"title":"Trips","version":"1"},"paths":{"/trips/{id}":{"get":{
	"operationId":"getTrip","summary":"Get one trip","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}}],
	"responses":{"200":{"description":"The trip"}}}}}}`

// Build a toolset from an OpenAPI document.
func ExampleBuild() {
	toolset, err := tools.Build([]byte(trips), tools.BuildOptions{Name: "trips"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range toolset.Tools() {
		fmt.Println(t.Name, "-", t.Definition.Description)
		fmt.Println(string(t.Definition.InputSchema))
	}
	// Output:
	// getTrip - Get one trip
	// {"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}
}

// Call a tool over HTTP.
func ExampleExecute() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"path":"`+r.URL.Path+`"}`)
	}))
	defer api.Close()
	toolset, err := tools.Build([]byte(trips), tools.BuildOptions{Name: "trips"})
	if err != nil {
		fmt.Println(err)
		return
	}
	invoker, err := tools.NewHTTPInvoker(api.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome := tools.Execute(context.Background(), toolset, "getTrip", []byte(`{"id":7}`), invoker)
	defer outcome.Release()
	fmt.Println(outcome.Result.Status, string(outcome.Result.Body))

	outcome = tools.Execute(context.Background(), toolset, "getTrip", []byte(`{}`), invoker)
	fmt.Println(outcome.Failure.Kind == tools.InvalidArguments)
	// Output:
	// 200 {"path":"/trips/7"}
	// true
}
