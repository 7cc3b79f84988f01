package match

import (
	"errors"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
)

// RequestErrorKind says why the arguments cannot be read from a plain request.
type RequestErrorKind = request.ReadKind

// The kinds of a RequestError, in addition to those of package request.
const (
	UndeclaredName  RequestErrorKind = "undeclared_name"  // the document does not declare a parameter or property (ReadDeclared)
	undeclaredBody  RequestErrorKind = "undeclared_body"  // the operation has no body
	encodedBody     RequestErrorKind = "content_encoding" // the body is compressed
	methodOverride  RequestErrorKind = "method_override"  // a field of the body requests a different method
	WrongPath       RequestErrorKind = "wrong_path"       // the path does not match the tool's path
	invalidArgument RequestErrorKind = "invalid_argument" // the arguments are not valid for the tool's schema
)

// A RequestError reports a plain request that cannot be read, or that a server may read
// differently. Code that decides by the arguments must reject such a request.
type RequestError struct {
	Kind    RequestErrorKind
	In      tools.Location // "" for the request as a whole
	Name    string         // as the API reads it; "" for the whole location
	Message string         // what is wrong, where, and how to fix it
}

// Error returns the message.
func (e *RequestError) Error() string {
	return e.Message
}

// requestError converts the error of a part of the request to a *RequestError.
func requestError(err error) error {
	if misread, ok := errors.AsType[*request.ReadError](err); ok {
		return &RequestError{Kind: misread.Kind, In: misread.In, Name: misread.Name, Message: misread.Error()}
	}
	return err
}
