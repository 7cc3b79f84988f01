package declared

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools/openapi"
)

const document = `
openapi: 3.1.0
info: {title: Shop, version: "1"}
webhooks:
  batch_completed:
    post:
      summary: A batch has ended.
      requestBody:
        content:
          application/json:
            schema: {allOf: [{$ref: '#/components/schemas/Base'}, {type: object, properties: {type: {const: batch.completed}}}]}
  plain: {post: {requestBody: {$ref: '#/components/requestBodies/Any'}}}
  Plain: {post: {requestBody: {$ref: '#/components/requestBodies/Any'}}}
  many: {put: {requestBody: {content: {application/json: {schema: {properties: {type: {enum: [a, b]}}}}}}}}
  nothing: {get: {}}
  xml: {post: {requestBody: {content: {application/xml: {}}}}}
  broken: {$ref: '#/components/none'}
x-webhooks:
  issue-closed:
    post:
      parameters: [{in: header, name: x-github-event, schema: {enum: [issues]}}]
      requestBody: {content: {application/json: {schema: {properties: {action: {enum: [closed]}}}}}}
paths:
  /a:
    post:
      callbacks:
        done: {'{$request.body#/url}': {post: {requestBody: {$ref: '#/components/requestBodies/Any'}}}}
      responses: {}
components:
  requestBodies: {Any: {content: {application/json: {schema: {type: object}}}}}
  schemas:
    Base: {type: object, properties: {id: {type: string}}}
    event_paid: {x-stripeEvent: {type: invoice.paid}, description: Paid., type: object}
`

func read(t *testing.T, text string, typeAt ...string) string {
	t.Helper()
	d, err := openapi.Read([]byte(text), openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range Read(d, typeAt) {
		line := e.Name
		if e.Err != nil {
			line += "!" + strings.Fields(e.Err.Error())[0]
		}
		if e.Payload == nil && e.Err == nil {
			line += "?"
		}
		all = append(all, line)
	}
	return strings.Join(all, " ")
}

func TestRead_finds_events_and_says_what_is_none(t *testing.T) {
	rest := " nothing!it xml!it broken!a "
	for typeAt, want := range map[string]string{
		"/type":                  "batch.completed plain Plain!another many" + rest + "issue-closed done invoice.paid?",
		"X-GitHub-Event /action": "batch_completed plain Plain!another many" + rest + "issues.closed done invoice.paid?",
	} {
		if got := read(t, document, strings.Fields(typeAt)...); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", typeAt, got, want)
		}
	}
	if got := read(t, `{"openapi":"3.1.0","info":{},"webhooks":{"a":{"post":{"requestBody":{"content":{"application/json":{}}}}}}}`, "/type"); got != "a" {
		t.Errorf("a document with webhooks only: %s", got)
	}
}

func TestRead_takes_limited_effort(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"openapi":"3.1.0","info":{},"webhooks":{`)
	for i := range maxEvents + 10 {
		fmt.Fprintf(&b, `"e%d":{"post":{"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/s0"}}}}}},`, i)
	}
	b.WriteString(`"z":{}},"components":{"schemas":{`)
	for i := range 30 {
		ref := fmt.Sprintf(`{"$ref":"#/components/schemas/s%d"}`, i+1)
		fmt.Fprintf(&b, `"s%d":{"allOf":[%s,%s]},`, i, ref, ref)
	}
	b.WriteString(`"s30":{}}}}`)
	if got := len(strings.Fields(read(t, b.String(), "/type"))); got != maxEvents {
		t.Errorf("%d events, want %d", got, maxEvents)
	}
}
