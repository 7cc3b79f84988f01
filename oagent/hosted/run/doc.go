// Package run runs hosted agents (OpenAgentSpec v1): it calls the model, makes the tool calls
// that the model requests, and returns the answer. It depends neither on Caddy nor on HTTP.
//
// A run is one Engagement of a hosted agent. It is a state machine whose State is in the store,
// with the conversation as the log of the same record. Data passes through it in this order:
//
//   - Runner.Start stores a new run and adds a job to the Queue (runner.go, queue.go).
//   - A node takes the job and leases the run, with the package store/lease (claim.go). An execution then makes
//     one step after the other (execution.go).
//   - An input of the user passes the input guardrail and is added to the conversation (turn.go).
//   - The model gets the conversation and responds (turn.go).
//   - Its tool calls go to Tools, which lets the Guard decide (tools.go, calls.go). The results are shortened,
//     marked as data, and added to the conversation (calls.go).
//   - An answer without calls passes the output guardrail and ends the run (turn.go).
//
// Each step ends with one change of the store, which also records the next step (execution.go). If a
// node dies, another node finds the run when its lease has expired (claim.go), and repeats the
// interrupted step. Exception: a tool call that was begun and is not idempotent is not repeated.
// Its result then says that it is unknown whether the call was made.
//
// A run can also decide a review of another agent's call (calls.go). Those who watch a run follow its states
// (follow.go).
//
// If a call waits for a review, for the user or for a task, the node releases the lease and drops
// the run from memory. Runner.Wake makes a node resume it. The node then repeats the waiting call,
// so an unnecessary Wake has no effect.
package run
