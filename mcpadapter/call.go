package mcpadapter

import (
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

// maxErrorBody is how many bytes of the API's own words about a failure are
// shown beside the summary.
const maxErrorBody = 16 << 10

// callTool runs a tool and answers with its outcome. A call that fails is still
// a result, marked as an error, so that the model reads why and can do better;
// wrong arguments too, in every revision. Only a name that no tool has is an
// error of the protocol.
func (x *exchange) callTool() *fault {
	if x.params.name.Kind() != '"' {
		return badParams("params.name must be a string that names a tool, not %s", wire.KindName(x.params.name.Kind()))
	}
	switch x.params.arguments.Kind() {
	case 0, 'n', '{':
	default:
		return badParams("params.arguments must be an object, not %s", wire.KindName(x.params.arguments.Kind()))
	}
	// The arguments are copied out of the pooled body: what they become part of
	// may be looked at after the call is over.
	ctx, own := x.context()
	outcome := x.caller.Call(ctx, text(x.params.name), x.params.arguments.Clone())
	defer outcome.Release()

	if failure := outcome.Failure; failure != nil && failure.Kind == ocp.UnknownTool {
		return badParams("%s", failure.Message)
	}
	b := x.begin()
	if x.version.selfDescribing() {
		b = append(x.appendComplete(b), ',')
	}
	if outcome.Failure != nil {
		b = appendFailure(b, outcome)
	} else {
		b = x.appendSuccess(b, outcome)
	}
	x.out.B = append(appendReply(b, own, outcome.Result), "}}"...)
	return nil
}

// appendSuccess appends the API's answer: as content, and once more as
// structuredContent if it is JSON that the revision takes there.
func (x *exchange) appendSuccess(dst []byte, outcome ocp.Outcome) []byte {
	form, value := formOf(outcome.Result)
	dst = append(dst, `"content":[`...)
	dst = appendContent(dst, form, outcome, x.tools)
	dst = append(dst, ']')
	if form == jsonForm && x.version.structures(value[0]) {
		dst = append(append(dst, `,"structuredContent":`...), value...)
	}
	return dst
}

// appendFailure appends what went wrong, and what the API itself said about it
// if that is text. A page of HTML is made for another reader and left out.
func appendFailure(dst []byte, outcome ocp.Outcome) []byte {
	dst = append(dst, `"content":[`...)
	dst = appendText(dst, outcome.Failure.Message)
	if r := outcome.Result; r != nil && r.MediaType() != "text/html" {
		switch form, _ := formOf(r); form {
		case jsonForm, textForm:
			dst = append(dst, ',')
			dst = appendText(dst, clip(string(r.Body[:min(len(r.Body), maxErrorBody+4)]), maxErrorBody))
		}
	}
	return append(dst, `],"isError":true`...)
}

func appendText[T string | []byte](dst []byte, s T) []byte {
	dst = wire.AppendString(append(dst, `{"type":"text","text":`...), s)
	return append(dst, '}')
}
