// Package directive reads the options in the blocks of Fairway's Caddyfile directives.
//
// Each directive's UnmarshalCaddyfile wraps Caddy's dispenser in a Block (block.go). Block.Read takes a
// table of the options, and one method for each, such as Text, Size, Duration or List. The method reads
// the arguments, validates them and stores the value in the handler's configuration. Errors contain
// the file and the line. An option that is given twice is an error. The error for an unknown
// option suggests the most similar known one.
//
// The package also registers the default order of the directives (order.go).
package directive
