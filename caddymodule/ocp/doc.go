// Package ocp is the directive `ocp`, an Open Context Protocol layer of Level 2 in
// front of an API.
//
// The Handler (handler.go) reads the OCP headers of a request, drops those that are
// invalid, and forwards the others (forward.go). The exchange (exchange.go) is the
// response writer of a request with a valid context: it adds the reply to the header,
// and holds a JSON response that gets further properties until its end
// (buffered_response.go, etag.go). A request without a context gets the API's response
// as it is, with Vary (vary.go). Tool calls begin behind this handler and still pass
// its exchange (tool_call.go).
//
// The package also has the matcher `ocp`, the discovery document, and `caddy ocp`.
package ocp
