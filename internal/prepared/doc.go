// Package prepared serves responses that were encoded in advance, with an entity tag
// (RFC 9110, section 8.8.3).
package prepared
