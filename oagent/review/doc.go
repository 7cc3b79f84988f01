// Package review implements reviews: a user or another agent must approve a call, or the
// release of its result (OpenAgentSpec v1, restriction, require_review).
//
// A review is in three places. The state of the Engagement decides whether the call passes
// (Requests). The store keeps the Review itself, with inputs and outputs (storage.go), and a
// list of open reviews for each reviewer (list.go). Queue keeps them consistent:
//
//   - A call that needs a review stores it with Prepare, adds it to the Engagement with
//     Requests.Add, and lists it for its reviewer with Open. Then it waits with Await.
//   - Decide records the decision in the Engagement, then in the Review, and wakes the call.
//   - An agent that reviews decides in an Engagement of its own (question.go). A Claim lets one
//     node at a time call the agent's program (claim.go).
//   - Queue.Engagement is what a reviewer sees of the Engagement under review (shown.go).
package review
