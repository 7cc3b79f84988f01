package match

import (
	"errors"

	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// RequestErrorKind says why the arguments cannot be read from a plain request.
type RequestErrorKind string

// The kinds of a RequestError. The first six are those of packages style and body.
const (
	MalformedRequest RequestErrorKind = "malformed" // a part of the request is malformed
	UnfitValue       RequestErrorKind = "unfit"     // a value has none of the types that the document declares
	DuplicateValue   RequestErrorKind = "duplicate" // a value is repeated, and servers differ in which one they use
	AmbiguousValue   RequestErrorKind = "ambiguous" // servers differ in how they read a part of the request

	UndeclaredMediaType RequestErrorKind = "media_type" // the document does not declare the body's Content-Type
	UnreadableCharset   RequestErrorKind = "charset"    // the body is text in a charset other than UTF-8

	UndeclaredName  RequestErrorKind = "undeclared_name"  // the document does not declare a parameter or property (ReadDeclared)
	UndeclaredBody  RequestErrorKind = "undeclared_body"  // the operation has no body
	EncodedBody     RequestErrorKind = "content_encoding" // the body is compressed
	MethodOverride  RequestErrorKind = "method_override"  // a field of the body requests a different method
	WrongPath       RequestErrorKind = "wrong_path"       // the path does not match the tool's path
	InvalidArgument RequestErrorKind = "invalid_argument" // the arguments are not valid for the tool's schema
)

// A RequestError reports a plain request that cannot be read, or that a server may read
// differently. Code that decides by the arguments must reject such a request.
type RequestError struct {
	Kind    RequestErrorKind
	In      tool.Location // "" for the request as a whole
	Name    string        // as the API reads it; "" for the whole location
	Message string        // what is wrong, where, and how to fix it
}

// Error returns the message.
func (e *RequestError) Error() string {
	return e.Message
}

// requestError converts the error of a part of the request to a *RequestError.
func requestError(err error) error {
	if misread, ok := errors.AsType[*style.ReadError](err); ok {
		return &RequestError{Kind: RequestErrorKind(misread.Kind), In: tool.Location(misread.In), Name: misread.Name, Message: misread.Error()}
	}
	return err
}
