// Package assertion compiles and evaluates the CEL expressions of agent documents: assertions
// of restrictions and guardrails, and selections of exposed values.
//
// Compile first quotes the names of tools, so that recent.search-faqs is not a subtraction
// (names.go). Then it compiles the expression, and rejects paths that no Engagement has (paths.go).
// Expressions are compiled when a document is read, with limits on their cost.
//
// Assertion.Check evaluates an expression over Variables: a View of an Engagement, which
// builds only the values that the expression reads. An assertion that cannot be evaluated does
// not hold. The Error then says why: which operand of && failed, which value is missing, or why
// a value is not in the record (error.go). A Linter finds expressions that compile but can never work.
package assertion
