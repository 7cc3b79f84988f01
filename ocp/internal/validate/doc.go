// Package validate checks arguments and responses against JSON Schemas.
//
// A Schema is compiled once, when it is first needed. Plain schemas (types, required properties,
// enums and limits, without references or combinations) are checked by Fast, which does not decode the
// value. All others are checked by Compiled, with the library jsonschema, under a budget that bounds
// the work which a hostile schema can cause. A test holds the two against each other. The result is a
// list of Problems, worded for a model that has to correct its arguments.
package validate
