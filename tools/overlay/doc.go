// Package overlay applies OpenAPI Overlays (Overlay Specification 1.0 and 1.1) to a document, so
// that an API can be described better without changing its document.
//
// Data passes through it in three steps:
//
//  1. [Read] or [ReadFile] reads an overlay and checks it. An error names the line and what to write.
//  2. [Apply] decodes the document, and applies the actions of each overlay in order. Each action
//     sees the result of the action before it.
//  3. [Result] gives the changed document as JSON, or in the form in which it was written.
//
// The order of members and the text of numbers stay as they are in the document. Comments and
// anchors of a YAML document are lost; an alias becomes a copy of what it names.
//
// The specification leaves some cases open. This package decides:
//
//   - An array in update is concatenated with a selected array, in version 1.0 as well.
//   - Members that cannot be merged, such as text with an object, are an error in both versions.
//   - An action that selects nothing is a Warning.
//   - extends is checked to be a text and has no other effect: the configuration says which
//     document an overlay is for.
package overlay
