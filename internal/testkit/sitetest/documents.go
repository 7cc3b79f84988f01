package sitetest

import (
	"fmt"
	"slices"
	"strings"
)

// Document has one tool of that name.
func Document(operation string) string {
	return fmt.Sprintf("openapi: 3.0.3\ninfo: {title: T, version: '1'}\npaths:\n  /x:\n    get: {operationId: %s, responses: {'200': {description: ok}}}\n", operation)
}

func (s *Site) WantTools(names ...string) {
	s.T.Helper()
	if got := s.ToolNames(); !slices.Equal(got, names) {
		s.T.Errorf("tools %q, want %q", got, names)
	}
}

// Timetable returns a document whose operations have the same paths in every timetable.
func Timetable(title string, operations ...string) string {
	var document strings.Builder
	document.WriteString("openapi: 3.1.0\ninfo: {title: " + title + ", version: 1.0.0, description: About " + title + ".}\npaths:\n")
	for _, operation := range operations {
		fmt.Fprintf(&document, "  /%s:\n    get:\n      operationId: %s\n      summary: %s of %s\n      responses: {\"200\": {description: ok}}\n", operation, operation, operation, title)
	}
	return document.String()
}

// ShapedDocument has an operation that needs an account, which a user must not choose.
const ShapedDocument = `openapi: 3.1.0
info: {title: Orders, version: "1"}
paths:
  /accounts/{account}/orders:
    get:
      operationId: orders/list
      summary: List orders
      parameters:
        - {name: account, in: path, required: true, schema: {type: string}}
        - {name: owner, in: query, schema: {type: string}}
        - {name: per_page, in: query, schema: {type: integer, maximum: 100}}
        - {name: X-Tenant, in: header, schema: {type: string}}
        - {name: debug, in: query, schema: {type: boolean}}
      responses: {"200": {description: ok}}
`

const ShapedBlock = `tool orders_list {
				rename      list_orders
				title       "Orders of the account"
				description "Lists orders, newest first."
				annotation  idempotentHint false
				argument account {
					fixed acme
				}
				argument owner {
					fixed {http.auth.user.id}
				}
				argument per_page {
					rename      page_size
					description "At most 50."
					default     20
				}
				argument X-Tenant {
					fixed "t-{http.vars.tenant}"
				}
				argument debug {
					hide
				}
			}`

// Renamed is trips with another operationId in place of deleteTrip.
var Renamed = strings.Replace(Trips, "operationId: deleteTrip", "operationId: removeTrip", 1)
