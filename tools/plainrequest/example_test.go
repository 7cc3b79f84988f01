package plainrequest_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/plainrequest"
)

const trips = `{"openapi":"3.1.0","info":{"title":"Trips","version":"1"},"paths":{"/trips/{id}":{"put":{
	"operationId":"updateTrip","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}}],
	"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"seats":{"type":"integer"}}}}}},
	"responses":{"200":{"description":"The trip"}}}}}}`

// Find the tool and the arguments of a request that any client of the API sent.
func Example() {
	toolset, err := tools.Build([]byte(trips), tools.BuildOptions{Name: "trips"})
	if err != nil {
		fmt.Println(err)
		return
	}
	routes := plainrequest.NewRoutes(toolset)

	body := `{"seats":2}`
	request := httptest.NewRequest("PUT", "/trips/7", strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	matched, err := routes.Match(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	arguments, err := routes.ReadRequest(matched, request, []byte(body))
	fmt.Println(matched.Name, string(arguments), err)
	// Output: updateTrip {"id":7,"seats":2} <nil>
}
