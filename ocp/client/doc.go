// Package client calls the tools of an API on behalf of an agent. A [Discovery] fetches and
// caches the tools of an API by the address of its document. A [Client] calls them, sends
// the agent's context with each call, and merges the context of the response.
package client
