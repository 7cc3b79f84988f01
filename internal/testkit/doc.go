// Package testkit is what tests of several packages share:
//
//   - documents: real ones from a folder named shared beside the checkout (shared.go), small ones
//     (testdocs.go), and generated ones (widedoc.go)
//   - checks: words of a message (keyword.go), schemas without references (flat.go)
//   - files, ports and spans: files of a certain age (watchtest.go), free ports (freeport.go), an OTLP receiver
//     (otlptest.go)
//
// A test that needs something that this machine lacks calls Missing.
package testkit
