// Package schema has all that Fairway does with schemas.
//
//   - A [Translator] converts the schemas of OpenAPI documents to JSON Schema 2020-12, as MCP clients and validators
//     expect it. It belongs to one build of one document and to one direction (input or output). Each $ref
//     target is written once, as text with holes for references to other targets (write.go). Recursive targets
//     are found (graph.go). Each hole gets the target itself or its name in $defs (component.go). So time and
//     memory are linear in the size of the document. Invalid keywords are left out: the output always compiles.
//   - ObjectOf, Types, Description, Default and IsFile inspect a schema without translating it.
//   - An InputPlan writes the schema of the arguments of a tool: in full, or small enough to be listed (plan.go,
//     full.go).
//   - A [Tree] is a JSON Schema that was parsed once (tree.go). All that reads encoded schemas walks it. The shared
//     parts of a schema are in the $defs of its [Root].
//   - [Flatten], [FlattenWithin] and [Relax] make schemas smaller and remove references (flat.go).
//   - What model APIs and clients require of schemas is in rules.go and pattern.go. What is checked and not listed is in
//     the keyword $check (check.go).
//   - A Validator checks values (validate.go). Plain schemas are checked by Fast, which does not decode the
//     value. All others are checked by Compiled, with the library jsonschema, under a budget that bounds the
//     work which a hostile schema can cause. The result is a list of Problems, worded for a model.
//   - Edits change schemas that are encoded (edit.go).
package schema
