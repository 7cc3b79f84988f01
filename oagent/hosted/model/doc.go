// Package model is what an agent needs of a generative model: one request with the
// conversation so far, one response with text or tool calls. It depends neither on Caddy nor
// on the API of a provider.
//
// Data passes through it in this order:
//
//   - The caller builds a [Request]: system text, messages, tools.
//   - [Model.Generate] sends it. Implementations are in the package modelapi, and Scripted.
//   - While the model writes, Generate reports each piece of text, if the caller wants them.
//   - The [Response] has the text, the tool calls, the tokens used and the reason to stop. The
//     caller appends [Response.Message] and the results of the calls to the conversation.
//   - If the request fails, the error is an [Error]. Its kind tells whether to try again;
//     [WithRetries] does so at once, and callers that can wait longer do later.
//
// What a model returns is input from outside: a tool call may name a tool that does not exist,
// and its arguments may not be JSON. Both are passed on unchanged. All types can be encoded as
// JSON and decoded again without loss, so that a conversation can be stored.
package model
