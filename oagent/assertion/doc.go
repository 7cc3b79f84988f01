// Package assertion compiles and evaluates the CEL expressions of agent documents: assertions
// of restrictions and guardrails, and selections of exposed values.
//
// Compile first quotes the names of tools, so that recent.search-faqs is not a subtraction
// (quote_names.go). Then it compiles the expression, finds out which parts of the Engagement it
// reads, and rejects paths that no Engagement has (reads.go). Expressions are compiled when a
// document is read, with limits on their cost.
//
// Assertion.Check evaluates an expression over Variables: a View of an Engagement, which
// builds only the values that the expression reads. An assertion that cannot be evaluated does
// not hold. The Error then says why: which operand of && failed (parts.go), which value is
// missing (missing.go), or why a value is not in the record (cause.go). A Linter finds
// expressions that compile but can never work.
package assertion
