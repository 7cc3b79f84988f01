// Package match finds the tool of an HTTP request, the inverse of package tools. A gateway
// uses it to apply the rules for tool calls to requests that are not tool calls.
//
// [Routes] finds the operation of a request. [Routes.Match] compares the request as written
// and as each lenient server would read it, and rejects a request that could be several
// operations. [ReadRequest] then reads the arguments back from the request, and rejects
// values that servers could read in different ways.
package match
