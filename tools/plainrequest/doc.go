// Package plainrequest applies the rules for tool calls to plain requests: requests to an API that are not tool calls.
//
// [Routes.Match] compares a request as written and as each lenient server would read it, and rejects a request that could be
// several operations. [Routes.ReadRequest] then reads the arguments back from the request, and rejects values that servers could
// read in different ways. Package match has the tree of the paths.
package plainrequest
