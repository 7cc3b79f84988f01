package enhance_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/enhance"
	"github.com/fairwayhq/fairway/tools"
)

// planner is the context that tests enhance with.
func planner() *ocp.Context {
	c := ocp.NewContext("planner")
	c.ContextID = "ocp-0123456789abcdef"
	c.User = "alice"
	c.CurrentGoal = "book a trip"
	c.AddChange("chose a date")
	c.AddAPISpec("trains", "https://example.com/openapi.json")
	c.Record(ocp.CallEntry(c.CreatedAt, "https://example.com/trips", "listTrips", "listTrips", 200))
	return c
}

// exchange is a GET by the planner, answered with JSON.
func exchange(t testing.TB, c *ocp.Context) *enhance.Exchange {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/trips?page=2&page=3&class=first", nil)
	r.Header.Set("Accept-Language", "de")
	x := &enhance.Exchange{Request: r, Status: 200, Header: http.Header{"Content-Type": {"application/json"}}}
	if c != nil {
		if err := c.SetHeaders(r.Header); err != nil {
			t.Fatal(err)
		}
	}
	x.Incoming = ocp.ReadIncoming(r.Header, ocp.ReadOptions{})
	return x
}

// declaring returns an operation that declares two properties.
func declaring(t testing.TB) *tools.Tool {
	t.Helper()
	set, err := tools.Build([]byte(`{"openapi":"3.1.0","info":{"title":"A","version":"1"},"paths":{"/trips":{"get":{
		"operationId":"listTrips","tags":["trips","public"],"responses":{"200":{"description":"A"}},
		"x-ocp-enhanced-response":{
			"next_actions":{"type":"array","items":{"type":"string"}},
			"match":{"type":"object","properties":{"relevance":{"type":"number","maximum":1}},"required":["relevance"]}}}}}}`), tools.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, ok := set.Tool("listTrips")
	if !ok {
		t.Fatal(set.Report.Warnings)
	}
	return found
}

// compile leaves expressions more time than they have by default, for which a
// machine with other work may pause it.
func compile(t testing.TB, options enhance.Options, properties ...enhance.Property) *enhance.Enhancer {
	t.Helper()
	if options.Limits.Time == 0 {
		options.Limits.Time = time.Minute
	}
	e, err := enhance.Compile(properties, options)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// one is a single property with that expression.
func one(t testing.TB, expression string) *enhance.Enhancer {
	t.Helper()
	return compile(t, enhance.Options{}, enhance.Property{Name: "p", Expression: expression})
}

func TestExpression(t *testing.T) {
	const body = `{"count":9,"big":18446744073709551615,"price":2.5,"name":"Berlin","list":[1,[2]],"o":{"b":1,"a":[ ]},"none":null,"deep":{"a":{"b":"c"}}}`
	for expression, want := range map[string]string{
		`1`:                                                          `1`,
		`response.body.count + 1 < 10`:                               `false`,
		`response.body.count + 1`:                                    `10`,
		`response.body.count < 9.5`:                                  `true`,
		`response.body.big`:                                          `18446744073709551615`,
		`response.body.price * 2.0`:                                  `5`,
		`response.body.name + "!"`:                                   `"Berlin!"`,
		`response.body.list`:                                         `[1,[2]]`,
		`response.body.o`:                                            `{"b":1,"a":[ ]}`,
		`response.body.none`:                                         `null`,
		`response.body.deep.a.b`:                                     `"c"`,
		`response.body.list[0] + 1`:                                  `2`,
		`size(response.body)`:                                        `8`,
		`"count" in response.body`:                                   `true`,
		`response.body.o.map(k, k)`:                                  `["b","a"]`,
		`response.body.o == {"a": [], "b": 1}`:                       `true`,
		`response.body.o == response.body.deep`:                      `false`,
		`response.body.deep.a == {"b": "c"}`:                         `true`,
		`response.body.o in [1, response.body.o]`:                    `true`,
		`json.encode(response.body.deep)`:                            `"{\"a\":{\"b\":\"c\"}}"`,
		`"%s".format([response.body.deep])`:                          `"{a: {b: c}}"`,
		`response.body["name"] == "Berlin" && !(1 in response.body)`: `true`,

		`type(response.body) == map && type(response.body.list) == list`: `true`,
		`optional.ofNonZeroValue(response.body.o).hasValue()`:            `true`,
		`response.body.list + [3]`:                                       `[1,[2],3]`,
		`has(response.body.nothing)`:                                     `false`,
		`response.body.?nothing.orValue(7)`:                              `7`,
		`optional.of("x")`:                                               `"x"`,
		`item.count`:                                                     `9`,
		`response.status`:                                                `200`,
		`response.headers["content-type"]`:                               `"application/json"`,
		`request.method + " " + request.path`:                            `"GET /trips"`,
		`request.query.page`:                                             `["2","3"]`,
		`request.headers["accept-language"]`:                             `"de"`,
		`tool.name`:                                                      `"listTrips"`,
		`tool.operation_id`:                                              `"listTrips"`,
		`"trips" in tool.tags`:                                           `true`,
		`tool.path`:                                                      `"/trips"`,
		`ocp.current_goal`:                                               `"book a trip"`,
		`ocp.agent_type.startsWith("plan")`:                              `true`,
		`ocp.?workspace.orValue("none")`:                                 `"none"`,
		`has(ocp.user) && ocp.user == "alice"`:                           `true`,
		`ocp.recent_changes`:                                             `["chose a date"]`,
		`ocp.history.map(h, h.metadata.tool_name)`:                       `["listTrips"]`,
		`ocp.history[0].result`:                                          `"success"`,
		`ocp.session.interaction_count`:                                  `1`,
		`ocp.api_specs.trains`:                                           `"https://example.com/openapi.json"`,
		`ocp.created_at <= ocp.last_updated`:                             `true`,
		`timestamp("2026-01-02T03:04:05Z")`:                              `"2026-01-02T03:04:05Z"`,
		`duration("90s")`:                                                `"90s"`,
		`b"hi"`:                                                          `"aGk="`,
		`1e-9`:                                                           `1e-09`,
		`{"b": 1, "a": [true, null]}`:                                    `{"a":[true,null],"b":1}`,
		`["b", "a", "b"].distinct().sort()`:                              `["a","b"]`,
		`"%s-%d".format(["a", 1])`:                                       `"a-1"`,
		`base64.encode(b"hi")`:                                           `"aGk="`,
		`math.greatest(1, 3)`:                                            `3`,
		`"äbäb".indexOf("b", 2)`:                                         `3`,
		`"äbäb".lastIndexOf("b", 2)`:                                     `1`,
		`"aaa".replace("a", "b", 2)`:                                     `"bba"`,
		`"aaa".replace("a", "bc")`:                                       `"bcbcbc"`,
		`["a","b"].join("-")`:                                            `"a-b"`,
		`["a","b"].join()`:                                               `"ab"`,
	} {
		t.Run(expression, func(t *testing.T) {
			x := exchange(t, planner())
			x.Tool = declaring(t)
			out, outcome := one(t, expression).Append(context.Background(), nil, []byte(body), x)
			if !outcome.Enhanced() {
				t.Fatalf("%+v", outcome)
			}
			if want := strings.TrimSuffix(body, "}") + `,"p":` + want + `}`; string(out) != want {
				t.Errorf("got  %s\nwant %s", out, want)
			}
		})
	}
}

func TestFailsClosed(t *testing.T) {
	for expression, want := range map[string]enhance.Reason{
		`ocp.workspace`:                 enhance.MissingKey,
		`response.body.nothing`:         enhance.MissingKey,
		`tool.name`:                     enhance.MissingKey,
		`response.body.list[7]`:         enhance.Failed,
		`1 / (response.body.count - 9)`: enhance.Failed,
		`response.body.name + 1`:        enhance.Failed,
		`response.body.huge`:            enhance.Failed,
		`0.0 / 0.0`:                     enhance.Value,
		`{1: 2}`:                        enhance.Value,
		`type(1)`:                       enhance.Value,
		`[optional.of(1)]`:              enhance.Value,
		`response.body.nested`:          enhance.Value,

		`response.body.long + response.body.long`:  enhance.AddedSize,
		`[response.body.long, response.body.long]`: enhance.AddedSize,
		`optional.none()`:                          enhance.NoProperty,
	} {
		t.Run(expression, func(t *testing.T) {
			body := `{"count":9,"name":"x","list":[],"huge":1e999,"long":"` + strings.Repeat("a", 60<<10) +
				`","nested":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`
			dst := []byte("before")
			out, outcome := one(t, expression).Append(context.Background(), dst, []byte(body), exchange(t, planner()))
			if outcome.Reason != want || string(out) != "before" {
				t.Errorf("got %+v, %.50s; want %s", outcome, out, want)
			}
			if outcome.Reason.Fault() != (outcome.Err != nil) || outcome.Reason.Fault() != (outcome.Property == "p") {
				t.Errorf("%+v", outcome)
			}
		})
	}
}
