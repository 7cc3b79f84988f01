// Package idempotency runs a call once for each key, in one process and on all nodes that share a
// store.
//
// Records.Do handles a request for a call. The first request for a key claims the record
// (execution.go): it writes a record with a lease to the store before the call runs, renews the
// lease while the call runs (lease.go), and replaces the record with the response. Concurrent
// requests in this process share one execution (flight.go). Requests on other nodes wait for the
// record to change. A later request finds the record and gets its response.
//
// A record is a fixed header and the body of the response (record.go). It contains no key, no
// arguments and no credentials in clear: both the name and the content of a call are keyed hashes
// (package keyedhash). If the store fails when a call ends, the response is stored in the
// background (retry.go).
//
// The package knows neither OTC nor HTTP requests. Package otcadapter implements Call.
package idempotency
