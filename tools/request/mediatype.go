package request

import (
	"mime"
	"strings"
)

const octetStream = "application/octet-stream"

// anyJSON is a media type range that ASP.NET writes.
const anyJSON = "application/*+json"

// A mediaType is one element of a contentType list: a type or a range.
type mediaType struct {
	base    string // lower case, without parameters
	full    string // as written
	charset string
}

// accepted are the media types that a document allows for a value.
type accepted []mediaType

// parseAccepted parses the contentType of an Encoding Object, a comma-separated list.
// Elements that are not media types are ignored.
func parseAccepted(contentType string) accepted {
	var types accepted
	for element := range strings.SplitSeq(contentType, ",") {
		element = strings.TrimSpace(element)
		base, parameters, err := mime.ParseMediaType(element)
		if err == nil && isMediaType(base) {
			types = append(types, mediaType{base: base, full: oneLine(element, base, parameters), charset: parameters["charset"]})
		}
	}
	return types
}

// isMediaType reports whether base has the form type/subtype. Base is a result of
// mime.ParseMediaType: lower case and made of tokens.
func isMediaType(base string) bool {
	slash := strings.IndexByte(base, '/')
	return slash > 0 && slash < len(base)-1
}

// oneLine returns the media type as written if a header may contain it. Otherwise it
// returns a cleaned form, since mime.ParseMediaType accepts characters that headers
// may not contain.
func oneLine(written, base string, parameters map[string]string) string {
	for i := range len(written) {
		if c := written[i]; c < ' ' || c >= 0x7f {
			return mime.FormatMediaType(base, parameters)
		}
	}
	return written
}

func (t mediaType) isRange() bool {
	return strings.HasSuffix(t.base, "/*") || t.base == anyJSON
}

// takes reports whether the type base equals this type or is in this range.
// application/octet-stream does not describe a value, so it matches every type.
func (t mediaType) takes(base string) bool {
	switch {
	case t.base == base || t.base == "*/*" || t.base == octetStream:
		return true
	case t.base == anyJSON:
		return strings.HasPrefix(base, "application/") && strings.HasSuffix(base, "+json") || base == "application/json"
	case t.isRange():
		return strings.HasPrefix(base, strings.TrimSuffix(t.base, "*"))
	}
	return false
}

// choose returns the Content-Type of a value for which the client requests the type
// wanted, which is "" if it requests none. If that type is not allowed, problem says
// why; otherwise problem is "".
func (a accepted) choose(wanted string) (contentType, problem string) {
	if wanted == "" {
		return a.preferred()
	}
	base, parameters, err := mime.ParseMediaType(wanted)
	if err != nil || !isMediaType(base) || strings.Contains(base, "*") {
		return "", `has a type that is not a media type: give one such as "image/png"`
	}
	if len(a) == 0 {
		return mime.FormatMediaType(base, parameters), ""
	}
	for _, t := range a {
		if t.takes(base) {
			return mime.FormatMediaType(base, parameters), ""
		}
	}
	return "", "has the type " + base + ", which the API does not take: it takes " + a.String()
}

// preferred returns the type of a value for which the client requests none: the first
// type that is not a range.
func (a accepted) preferred() (contentType, problem string) {
	anything := len(a) == 0
	for _, t := range a {
		if !t.isRange() {
			return t.full, ""
		}
		anything = anything || t.takes(octetStream)
	}
	if anything {
		return octetStream, ""
	}
	return "", `must say its type, for the API takes ` + a.String() + `: give an object {"data": …, "type": …}`
}

// String returns the types as a list.
func (a accepted) String() string {
	var list strings.Builder
	for i, t := range a {
		if i > 0 {
			list.WriteString(", ")
		}
		list.WriteString(t.base)
	}
	return list.String()
}
