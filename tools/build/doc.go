// Package build has the parts that decide what becomes of the operations of a document:
//
//   - Selection: which operations become tools, by tag, operation, path or method (selector.go)
//   - names: deterministic, unique, ASCII letters, digits and underscores, at most [MaxName] bytes (naming.go)
//   - verbs: whether an operation reads, creates, updates or deletes (verb.go, verb_operation.go)
//   - descriptions: plain text that begins with what the operation does, within a budget (describe.go, plain.go)
//   - bodies: the media type of a request body, and which properties of a form are files (media.go)
//   - Shape: how an operator changes the names, texts, arguments and responses of tools. A document can contain
//     the same as x-fairway members (shape.go, extension.go).
//
// Package tools uses them to make tools.
package build
