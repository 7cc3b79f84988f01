// Package engagement keeps the records of Engagements (OpenAgentSpec v1, Engagement). A record
// in the store has two parts:
//
//   - the State: the data that each decision needs. Its size does not grow with each call.
//   - the log: one Entry for each event, with the inputs and outputs of calls. Operators read
//     it as an audit log.
//
// Records.Change runs a decision in a transaction: the decision reads and changes a copy of the
// State in a Tx and logs entries, and both are written together. The store is authoritative. A
// cache of limited size holds the states and calls that decisions have read (record.go),
// so most decisions read nothing from the store. If a decision needs calls that are not in memory,
// it returns an UnreadError. Change then reads them from the log and repeats the decision.
//
// Inputs and outputs that a record cannot keep are replaced by an Omitted. A Refusal says why a
// call must not be made; its Kind is part of the record.
package engagement
