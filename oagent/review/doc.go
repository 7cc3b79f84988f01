// Package review implements reviews: a user or another agent must approve a call, or the
// release of its result (OpenAgentSpec v1, restriction, require_review).
//
// A review is stored in three records. The state of the Engagement decides whether the call passes
// (requests.go). The Review itself has the inputs and outputs (storage.go). A list of open reviews
// exists for each reviewer (list.go). Queue keeps the three consistent:
//
//   - A call that needs a review stores it with Prepare, adds it to the Engagement with
//     Requests.Add, and lists it for its reviewer with Open. Then it waits with Await.
//   - Decide records the decision in the Engagement, then in the Review, and wakes the call.
//   - An agent that reviews decides in an Engagement of its own (assigned.go). A Claim lets one node
//     at a time call the agent's program (claim.go).
//   - Queue.Engagement returns the view of a reviewer of the Engagement under review
//     (reviewer_view.go).
package review
