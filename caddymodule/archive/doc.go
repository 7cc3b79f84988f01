// Package archive sends audit entries to files and webhooks, which keep them longer than the store does.
//
// An entry passes these steps:
//
//  1. Archive.Record appends it to a log in the store (queue.go), and waits until it is durable. If too many entries
//     wait there, the entry is refused or dropped.
//  2. A goroutine for each Sink reads the log, makes entries lines of the node's chain (line.go), and writes them
//     to the Sink (deliver.go). It then stores its position. If the node ends between the two, it writes the same lines again.
//  3. Verifier checks the lines (verify.go).
//
// Nodes that share a store have a chain each. A lease says which node delivers the entries of a chain, so that another
// node delivers those of a node that has ended.
package archive
