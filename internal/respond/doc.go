// Package respond holds HTTP responses, and writes those that have a fixed form:
//
//   - Recorder is the http.ResponseWriter of every response that is held before it is sent, read or discarded.
//   - Problem is an error response as a problem document (RFC 9457, application/problem+json). WriteProblem is
//     for an error that needs only a status, a title and a detail. NewProblem is for one with a type or with
//     further members. It is the only writer of such responses in this module.
//   - BodyFailure says how to respond if a body cannot be read.
//   - Prepared is a response that was encoded in advance, with an entity tag (RFC 9110, section 8.8.3).
package respond
