// Package run runs hosted agents (OpenAgentSpec v1): it calls the model, makes the tool calls
// that the model requests, and returns the answer. It depends neither on Caddy nor on HTTP.
//
// A run is one Engagement of a hosted agent. It is a state machine whose State is in the store,
// with the conversation as the log of the same record. Data passes through it in this order:
//
//   - Runner.Start stores a new run and adds a job to the Queue (runner.go, queue.go).
//   - A node takes the job and leases the run (claim.go). An execution then makes one step after
//     the other (execution.go).
//   - An input of the user passes the input guardrail and is added to the conversation (input.go).
//   - The model gets the conversation and responds (turn.go).
//   - Its tool calls go to Tools, which lets the Guard decide (calls.go, tools.go, toolbox.go). The
//     results are shortened, marked as data, and added to the conversation (result.go).
//   - An answer without calls passes the output guardrail and ends the run (turn.go).
//
// Each step ends with one change of the store, which also records the next step (advance.go). If a
// node dies, another node finds the run when its lease has expired (sweep.go), and repeats the
// interrupted step. Exception: a tool call that was begun and is not idempotent is not repeated.
// Its result then says that it is unknown whether the call was made.
//
// If a call waits for a review, for the user or for a task, the node releases the lease and drops
// the run from memory. Runner.Wake makes a node resume it. The node then repeats the waiting call,
// so an unnecessary Wake has no effect.
package run
