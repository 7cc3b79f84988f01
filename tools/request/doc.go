// Package request converts between the arguments of a tool call and the parts of an HTTP request.
//
// An [Argument] says how one argument is sent. The Plan of a tool (package tools) has one for each argument: package
// tools writes requests with it, and package match reads requests with it.
//
// A [Serializer] writes one argument into a path segment, the query, a header, a cookie or a form body. It
// implements the style table of OpenAPI 3.0 and 3.1 ("Style Values") and follows RFC 6570 where that table
// does. No value can escape its part of the request.
//
// An [Encoder] writes a body in the media type that the document declares. [Encoder.AppendObject] is for a
// body whose properties are arguments, [Encoder.AppendValue] for one argument that is the whole body. Binary
// data is base64, alone or in an object that also has the file's name and type; [FileSchema] describes that object.
//
// Both take the JSON that the client sent, already validated, and append bytes: numbers keep their digits,
// objects keep their order. Both read their description once, when a document is loaded. Their Read methods do the
// reverse, and reject text that servers may interpret in different ways.
package request
