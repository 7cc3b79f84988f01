package enhance_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
)

func Example() {
	enhancer, err := enhance.Compile([]enhance.Property{
		{Name: "next_actions", Expression: `item.seats > 0 ? ["book " + item.id] : ["look for another trip"]`},
		{Name: "for_goal", Expression: `ocp.?current_goal`}, // nothing where there is no goal
	}, enhance.Options{})
	if err != nil {
		panic(err)
	}

	request := httptest.NewRequest(http.MethodGet, "/trips/7", nil)
	agent := ocp.NewContext("planner")
	agent.SetGoal("travel to Warsaw", "")
	if err := agent.SetHeaders(request.Header); err != nil {
		panic(err)
	}

	body, outcome := enhancer.Append(context.Background(), nil, []byte(`{"id":"7","seats":3}`), &enhance.Exchange{
		Incoming: ocp.ReadIncoming(request.Header, ocp.ReadOptions{}),
		Request:  request,
		Status:   http.StatusOK,
		Header:   http.Header{"Content-Type": {"application/json"}},
	})
	fmt.Println(outcome.Enhanced(), string(body))
	// Output: true {"id":"7","seats":3,"next_actions":["book 7"],"for_goal":"travel to Warsaw"}
}
