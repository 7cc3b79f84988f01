// Package run runs hosted agents (OpenAgentSpec v1): it calls the model, makes the tool calls
// that the model wants, and returns the answer. It depends neither on Caddy nor on HTTP.
//
// A run is one Engagement of a hosted agent. It is a state machine whose State is in the store,
// with the conversation as the log of the same record. Data passes through it in this order:
//
//   - Runner.Start stores a new run and adds a job to the Queue (runner.go, queue.go).
//   - A node takes the job and leases the run (claim.go). From then on an execution makes one
//     step after the other (execution.go).
//   - An input of the user passes the input guardrail and joins the conversation (input.go).
//   - The model gets the conversation and responds (turn.go).
//   - Its tool calls go to Tools, which lets the Guard decide (calls.go, tools.go, toolbox.go). The results
//     join the conversation, shortened and marked as data (result.go).
//   - An answer without calls passes the output guardrail and ends the run (turn.go).
//
// Each step ends with one change of the store that also records what is about to be done next
// (advance.go). If a node dies, another one finds the run after the end of its lease (sweep.go)
// and repeats the interrupted step, with one exception: a tool call that was begun and is not
// idempotent is not made again. The model learns that it is unknown whether it was made.
//
// If a call waits for a review, for the user or for a task, the node gives the lease back and
// forgets the run. Runner.Wake makes a node take it up again. Since a call that waits is simply
// repeated then, an unnecessary Wake does no harm.
package run
