package plainrequest

import (
	"errors"

	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
)

// The kinds of a match.RequestError, in addition to those of package request.
const (
	UndeclaredName  request.ReadKind = "undeclared_name"  // the document does not declare a parameter or property (ReadDeclared)
	undeclaredBody  request.ReadKind = "undeclared_body"  // the operation has no body
	encodedBody     request.ReadKind = "content_encoding" // the body is compressed
	methodOverride  request.ReadKind = "method_override"  // a field of the body requests a different method
	invalidArgument request.ReadKind = "invalid_argument" // the arguments are not valid for the tool's schema
)

// requestError converts the error of a part of the request to a *match.RequestError.
func requestError(err error) error {
	if misread, ok := errors.AsType[*request.ReadError](err); ok {
		return &match.RequestError{Kind: misread.Kind, In: misread.In, Name: misread.Name, Message: misread.Error()}
	}
	return err
}
