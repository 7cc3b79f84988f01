// Package ocp implements the context headers of the Open Context Protocol (OCP 1.0), for
// agents and for APIs. It does not depend on Caddy, and it knows nothing of OpenAPI
// documents: package tools makes tools from them, package tools/match finds the tool of a
// request, and package ocp/client calls tools with a context.
//
// On the side of the API, [ReadIncoming] reads the OCP headers of a request and decodes the
// [Session] only when its [Context] is needed. [Incoming.Judge] says whether the headers
// conform, with a [Fault] for each deviation. [Incoming.Reply] makes the context of the
// response.
//
// On the side of the agent, a [SharedContext] holds the context of one task. A [Transport]
// adds it to the requests of any http.Client and merges the context of the responses into
// it.
package ocp
