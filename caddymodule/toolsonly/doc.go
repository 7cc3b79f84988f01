// Package toolsonly is the directive `tools_only`, which rejects requests that are not
// tool calls.
package toolsonly
