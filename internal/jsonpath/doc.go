// Package jsonpath selects values of a JSON tree with JSONPath (RFC 9535).
//
// [Parse] compiles a query, and [Path.Select] evaluates it on a tree of [Node]. The tree keeps the
// order of members and the text of numbers, and a match names the parent that holds the value, so
// that a caller can change or remove what it selected. The cost of an evaluation is limited by a
// [Budget], since a query such as $..*..* can visit each value of a document many times.
//
// Why not a library: github.com/speakeasy-api/jsonpath v0.6.3 (and pb33f/jsonpath, made from it)
// selects every value that lacks the member in [?match(@.name, 'a.*')], rejects a filter after
// another selector ([0, ?@.a]), and has no limit on its work. An overlay that removes what it
// selects would remove the wrong values. Other libraries decode to Go maps, which lose the order of
// members and the text of numbers. This package passes the compliance test suite of RFC 9535.
package jsonpath
