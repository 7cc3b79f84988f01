// Package session holds what clients and server share beyond one request of MCP.
//
// Sessions: the server stores none. A Signer writes all fields of a Session into its id, so every server with the
// same secret can resume it (id.go). States has a State for each session only while the session is in
// use: requests in progress, requests of the server that wait for a response, and subscriptions. It also
// remembers which sessions have ended until they expire (state.go).
//
// Notifications: each open stream has a Watcher, which collects the pending changes without blocking. Streams is the
// set of all watchers of a server, and Streams.Notify reaches them all (watcher.go). A Watch runs in the
// goroutine of one stream: it waits for its Watcher, sends the notifications, polls the resources that the client
// watches, and keeps an idle connection open with comments (watch.go). Digests are short hashes of the lists. They
// are part of session ids and event ids, so a client that returns, even to another server, is notified about
// what changed in the meantime (digests.go).
package session
