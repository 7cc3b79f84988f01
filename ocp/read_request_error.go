package ocp

import (
	"errors"

	"github.com/fairwayhq/fairway/ocp/body"
	"github.com/fairwayhq/fairway/ocp/style"
)

// RequestErrorKind says why a plain request could not be read back into the
// arguments of its tool.
type RequestErrorKind = style.ReadKind

// The kinds of a RequestError.
const (
	MalformedRequest RequestErrorKind = style.Malformed // a part of it breaks the rules of its place
	UnfitValue       RequestErrorKind = style.Unfit     // a value is of none of the types that the document declares
	DuplicateValue   RequestErrorKind = style.Duplicate // something is there twice, and servers differ in which they take
	AmbiguousValue   RequestErrorKind = style.Ambiguous // servers differ in what a part of it says

	UndeclaredMediaType RequestErrorKind = body.MediaType // the document does not declare the body's Content-Type
	UnreadableCharset   RequestErrorKind = body.Charset   // the body is text in another charset than UTF-8

	UndeclaredName  RequestErrorKind = "undeclared_name"  // the document does not declare a parameter or property (ReadDeclared)
	UndeclaredBody  RequestErrorKind = "undeclared_body"  // the operation takes no body
	EncodedBody     RequestErrorKind = "content_encoding" // the body is compressed
	MethodOverride  RequestErrorKind = "method_override"  // a field of the body asks for another method
	WrongPath       RequestErrorKind = "wrong_path"       // the path is not one of the tool
	InvalidArgument RequestErrorKind = "invalid_argument" // the arguments do not fit the tool's schema
)

// A RequestError is a plain request that cannot be read, or that a server might
// read otherwise than it is read here. Whoever decides on the arguments refuses
// such a request.
type RequestError struct {
	Kind    RequestErrorKind
	In      Location // "" for the request as a whole
	Name    string   // as the API reads it; "" for the whole place
	Message string   // what is wrong, where, and what to do
}

// Error returns the message.
func (e *RequestError) Error() string {
	return e.Message
}

// requestError makes the error of a part of the request one of the whole.
func requestError(err error) error {
	if misread, ok := errors.AsType[*style.ReadError](err); ok {
		return &RequestError{Kind: misread.Kind, In: Location(misread.In), Name: misread.Name, Message: misread.Error()}
	}
	return err
}
