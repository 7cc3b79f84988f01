package match

import (
	"errors"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
)

// ErrNoOperation reports a request that matches no operation of the documents, even with
// lenient matching.
var ErrNoOperation = errors.New("the request is not an operation that the documents declare")

// An AmbiguousError reports a request that an upstream may treat as a different operation.
// Code that decides by the operation must reject it.
type AmbiguousError struct {
	Tool   *tools.Tool // the operation that an upstream may choose; nil if not known
	Reason string      // completes "the request is ambiguous: …" and says how to fix it
}

// Error returns the reason.
func (e *AmbiguousError) Error() string {
	return "the request is ambiguous: " + e.Reason
}

// WrongPath is the kind of a RequestError about a path that does not match the tool's path.
const WrongPath request.ReadKind = "wrong_path"

// A RequestError reports a plain request that cannot be read, or that a server may read
// differently. Code that decides by the arguments must reject such a request.
type RequestError struct {
	Kind    request.ReadKind
	In      tools.Location // "" for the request as a whole
	Name    string         // as the API reads it; "" for the whole location
	Message string         // what is wrong, where, and how to fix it
}

// Error returns the message.
func (e *RequestError) Error() string {
	return e.Message
}
