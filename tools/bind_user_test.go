package tools

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// cards is a document whose operations have arguments that a model must not make up
// in every place where that makes a difference.
const cards = `
openapi: 3.1.0
info: {title: Cards, version: "1"}
paths:
  /pay/{shop}:
    post:
      operationId: pay
      parameters:
        - {name: shop, in: path, required: true, schema: {type: string}}
        - {name: pin, in: query, required: true, schema: {type: string}, x-otc-non-inferrable: true}
        - {name: memo, in: query, schema: {type: string}, x-otc-non-inferrable: true}
        - {name: zone, in: query, required: true, schema: {type: string, default: eu}, x-otc-non-inferrable: true}
      responses: {"200": {description: Paid}}
  /seal/{key}/{box}:
    post:
      operationId: seal
      parameters:
        - {name: key, in: path, required: true, schema: {type: string}, x-otc-non-inferrable: true}
        - {name: box, in: path, required: true, schema: {type: string}}
      responses: {"200": {description: Sealed}}
  /optional:
    post:
      operationId: optional
      requestBody:
        content:
          application/json:
            schema: {$ref: '#/components/schemas/Charge'}
      responses: {"200": {description: Charged}}
  /required:
    post:
      operationId: required
      requestBody:
        required: true
        content:
          application/json:
            schema: {$ref: '#/components/schemas/Charge'}
      responses: {"200": {description: Charged}}
  /single:
    post:
      operationId: single
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [card]
              properties:
                card: {type: string, x-otc-non-inferrable: true}
                note: {type: string, x-otc-non-inferrable: true}
      responses: {"200": {description: Charged}}
  /open:
    post:
      operationId: open
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [card]
              properties:
                card: {type: string, x-otc-non-inferrable: true}
              additionalProperties: {type: integer}
      responses: {"200": {description: Charged}}
  /many:
    get:
      operationId: many
      parameters:
        - {name: size, in: query, required: true, schema: {type: integer}}
PARAMETERS
      responses: {"200": {description: Many}}
components:
  schemas:
    Charge:
      type: object
      required: [amount, card, kind]
      properties:
        amount: {type: integer}
        card: {type: string, minLength: 4, x-otc-non-inferrable: true}
        kind: {type: string, default: debit, x-otc-non-inferrable: true}
        note: {type: string, x-otc-non-inferrable: true}
`

func TestArguments_from_user(t *testing.T) {
	var many strings.Builder // more than one answer lists problems
	for name := range strings.SplitSeq("abcdefghijkl", "") {
		many.WriteString("        - {name: " + name + ", in: query, required: true, schema: {type: string}, x-otc-non-inferrable: true}\n")
	}
	tools := buildTools(t, strings.Replace(cards, "PARAMETERS\n", many.String(), 1), BuildOptions{})
	for _, c := range []struct {
		rule, tool, arguments string
		needed, optional      string
		problem               string // what is wrong with the arguments; "" if nothing
	}{
		{"parameters", "pay", `{"shop":"a"}`, "pin", "memo zone", ""},
		{"made up", "pay", `{"shop":"a","pin":5,"memo":null}`, "pin", "memo zone", ""},
		{"missing", "pay", `{}`, "", "", "/shop: missing"},
		{"of another type", "pay", `{"shop":{}}`, "", "", "/shop: string"},
		{"in another JSON form", "pay", `{"shop":1}`, "pin", "memo zone", ""},
		{"unknown", "pay", `{"shop":"a","shp":1}`, "", "", "/shp: argument shop?"},
		{"no object", "pay", `[]`, "", "", "JSON object"},
		{"unsendable", "pay", `{"shop":""}`, "", "", "/shop: "},
		{"dots", "pay", `{"shop":".."}`, "", "", "/shop: .."},
		{"path", "seal", `{"box":"a"}`, "key", "", ""},
		{"path, missing", "seal", `{}`, "", "", "/box: missing"},
		{"optional body, not begun", "optional", `{}`, "", "", ""},
		{"optional body", "optional", `{"amount":3}`, "card", "kind note", ""},
		{"optional body, of another type", "optional", `{"amount":"x"}`, "", "", "/amount: integer"},
		{"required body", "required", `{"amount":3}`, "card", "kind note", ""},
		{"required body, missing", "required", `{}`, "", "", "/amount: missing"},
		{"optional body that needs one", "single", `{}`, "", "card", ""},
		{"open body, not begun", "open", `{}`, "", "card", ""},
		{"open body", "open", `{"further":1}`, "card", "", ""},
		{"many", "many", `{"size":1}`, "a b c d e f g h i j k l", "", ""},
		{"many, of another type", "many", `{"size":"x"}`, "", "", "/size: integer"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			tool, _ := tools.Tool(c.tool)
			got, err := tool.FromUser([]byte(c.arguments))
			switch {
			case c.problem == "" && err != nil:
				t.Fatal(err)
			case c.problem != "" && (err == nil || !testkit.ContainsAll(err.Error(), c.problem)):
				t.Fatalf("error %v, want %q", err, c.problem)
			case err != nil && strings.Contains(err.Error(), "pin"):
				t.Errorf("the model sees what only the user gives: %v", err)
			}
			if names(got.Needed) != c.needed || names(got.Optional) != c.optional {
				t.Errorf("needed %q, optional %q; want %q and %q", names(got.Needed), names(got.Optional), c.needed, c.optional)
			}
		})
	}
}

func names(arguments []*Argument) string {
	var list []string
	for _, a := range arguments {
		list = append(list, a.Name)
	}
	return strings.Join(list, " ")
}

// A name that marks nothing leaves open what the author wanted closed.
func TestNames_that_protect_nothing(t *testing.T) {
	const document = `
openapi: 3.1.0
info: {title: Seats, version: "1"}
paths:
  /seats:
    get:
      operationId: seats
      x-otc-non-inferrable: [kind, rwo, other.kind]
      parameters:
        - {name: kind, in: query, schema: {type: string}}
        - {name: row, in: query, schema: {type: string}}
        - {name: Host, in: header, schema: {type: string}}
      responses: {"200": {description: Seats}}
`
	tools, err := Build([]byte(document), BuildOptions{NonInferrable: []string{"row", "nosuch", "seats.kindd", "seats.kind"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"x-otc-non-inferrable GET /seats: rwo row?",
		"x-otc-non-inferrable GET /seats: other.kind",
		"non_inferrable: nosuch",
		"non_inferrable: seats.kindd seats.kind?",
	}
	if len(tools.Report.Warnings) != len(want)+1 {
		t.Fatalf("warnings %+v, want that of Host behind %q", tools.Report.Warnings, want)
	}
	for i, reason := range want {
		if got := tools.Report.Warnings[i]; !testkit.ContainsAll(got.Reason, reason) || got.Operation != "" {
			t.Errorf("warning %d is %+v, want %q", i, got, reason)
		}
	}
}
