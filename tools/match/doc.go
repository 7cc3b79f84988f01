// Package match finds the tool of the path of an HTTP request, the inverse of package tools. [Routes] are a tree of
// the paths of the tools; [Routes.CallOf] also reads the arguments from a URL that an API has returned, such as a
// Location. Package plainrequest decides whether a request may pass, and reads its arguments.
package match
