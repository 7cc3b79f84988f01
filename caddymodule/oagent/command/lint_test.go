package command

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

const lintTrips = `openapi: 3.1.0
info: {title: Trips, version: "1"}
paths:
  /trips:
    get:
      operationId: listTrips
      parameters:
        - {name: limit, in: query, schema: {type: integer}}
        - {name: path, in: query, schema: {type: string}}
        - {name: direct, in: query, schema: {type: boolean}}
        - {name: code, in: query, schema: {type: [string, integer]}}
      responses: {"200": {description: OK}}
  /labels:
    post:
      operationId: createLabel
      requestBody: {content: {application/json: {schema: {type: object, properties: {name: {type: string}}, additionalProperties: true}}}}
      responses: {"200": {description: OK}}
`

// TestOAgentLint_expressions tries each expression as the input restriction of
// list-trips (or the output restriction), with the API's document and without.
func TestOAgentLint_expressions(t *testing.T) {
	const good = ""
	dir := t.TempDir()
	document, file := filepath.Join(dir, "trips.yaml"), filepath.Join(dir, "agent.yaml")
	if err := os.WriteFile(document, []byte(lintTrips), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		side, expression string
		without, with    string // what is reported without a document, and with it
	}{
		{"input", `recent.list-trips.inputs.path == "a"`, good, good},
		{"input", `recent.list-trips.inputs.pathh == "a"`, good, "pathh path?"},
		{"input", `!("pathh" in recent.list-trips.inputs)`, good, "input pathh"},
		{"input", `!has(recent.list-trips.inputs.pathh)`, good, "input pathh"},
		{"input", `history.list-trips.all(t, t.inputs.pathh != "a")`, good, "input pathh"},
		{"input", `history.list-trips[0].inputs.pathh != "a"`, good, "input pathh"},
		{"input", `history.list-trips.all(t, t.inputs.path != "a")`, good, good},
		{"input", `[{"inputs": {"x": 1}}].all(t, t.inputs.x == 1)`, good, good},
		{"input", `!has(recent.list-trips.inputs._query)`, good, good},
		{"input", `recent.create-label.inputs.anything == "a"`, good, good},
		{"input", `size(history.list-trips) <= 20`, good, good},
		{"input", `recent.list-trips.inputs.code == 5`, good, good},
		{"input", `recent.list-trips.inputs.limit == "12345678901234567890"`, good, good}, // a number beyond 64 bits is a text
		{"input", `recent.list-trips.inputs.path == null || recent.list-trips.inputs.path == "a"`, good, good},
		{"input", `recent.list-trips.inputs.direct ? recent.list-trips.inputs.path != "" : true`, good, good},

		{"input", `recent.list-trips.inputs.path > 5`, good, "overload"},
		{"input", `recent.list-trips.inputs.path`, good, "true false string"},
		{"input", `recent.list-trips.inputs.direct`, good, good},
		{"input", `history._total`, "true false int", "true false int"},
		{"input", `history.list-trips`, "true false list", "true false list"},
		{"input", `user.id`, "true false string", "true false string"},
		{"input", `user.id == 5`, "overload", "overload"},
		{"input", `recent._name == "list-trips"`, good, good},
		{"input", `false`, "never every", "never every"},
		{"input", `1 > 2 && user.id == "ada"`, "never every", "never every"},
		{"input", `user.id == "ada" && 1 > 2`, "never every", "never every"},
		{"input", `user.id == "ada" || 1 > 2`, good, good},
		{"input", `recent.list-trips.outputs.ok`, "field selection", "field selection"},
		{"output", `recent.list-trips.outputs.ok`, good, good},
	} {
		t.Run(test.side+"/"+test.expression, func(t *testing.T) {
			text := "kind: \"openagentspec:v1/agent\"\nname: desk\ndescription: Tests.\nintent: You test.\nowner: tests\ncapabilities:\n  create-label: {}\n  list-trips:\n    " +
				test.side + "_restriction:\n      assertion: |-\n        " + test.expression + "\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for documents, want := range map[string]string{"": test.without, document: test.with} {
				var given []string
				if documents != "" {
					given = []string{documents}
				}
				var out bytes.Buffer
				err := lintAgents(&out, []string{file}, given)
				if (err != nil) != (want != good) || !testkit.ContainsAll(out.String(), want) {
					t.Errorf("with %q: error %v, want %q: %s", documents, err, want, &out)
				}
			}
		})
	}
}
