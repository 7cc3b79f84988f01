package oagent

import (
	"bytes"
	"errors"
	"maps"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/oagent/agentset"
	"github.com/fairwayhq/fairway/caddymodule/toolcall"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/ocp/stream"
)

// outputs returns the response in the form of the Engagement. The outputs of a streaming tool
// call are its reduced result, because that is all that the caller gets.
func (a *heldResponse) outputs(ofCall bool) jsontext.Value {
	switch {
	case !a.recorded || a.bodiless || a.size == 0:
		return nil
	case a.streamed:
		return engagement.Omitted{Bytes: a.size, Why: engagement.OmittedStream}.JSON()
	case a.incomplete || a.body == nil:
		return engagement.Omitted{Bytes: a.size, Why: engagement.OmittedAnswer, Limit: a.limit}.JSON()
	}
	header := a.Header()
	if format := stream.FormatOf(header.Get("Content-Type")); ofCall && format != 0 && a.status < http.StatusMultipleChoices {
		return reducedOutputs(header, a.status, format, a.body.B, a.limit)
	}
	return outputsOf(header, a.status, a.body.B, a.limit)
}

// reducedOutputs returns the outputs for the reduced result of a stream.
func reducedOutputs(header http.Header, status int, format stream.Format, body []byte, limit int64) jsontext.Value {
	content := buffer.Get()
	defer buffer.Put(content)
	reducer := stream.NewReducer(format, content, stream.Options{MaxContent: limit})
	defer reducer.Release()
	if _, err := reducer.Write(body); err != nil {
		return omitUndecodable(err, body, limit)
	}
	contentType, err := reducer.Finish()
	if err != nil {
		return omitUndecodable(err, body, limit)
	}
	header = maps.Clone(header)
	header["Content-Type"] = []string{contentType}
	return outputsOf(header, status, content.B, limit).Clone()
}

// outputsOf returns the body of a response in the form of the Engagement: JSON as it is, text
// as a string, and for anything else
//
//	{"_media_type":"image/png","_bytes":1234}
//
// A body that cannot be decoded, or that is partial content, is omitted (engagement.Omitted), so that
// an assertion on it fails instead of finding no member. Without a body the outputs are nil.
// The outputs may alias the body.
func outputsOf(header http.Header, status int, body []byte, limit int64) jsontext.Value {
	if len(body) == 0 {
		return nil
	}
	contentType := header.Get("Content-Type")
	if coding := header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") || declaresOtherCharset(contentType) {
		decoded, err := decodedCopy(header, body, limit)
		if err != nil {
			return omitUndecodable(err, body, limit)
		}
		defer buffer.Put(decoded)
		return plainOutputs(contentType, status, decoded.B).Clone()
	}
	return plainOutputs(contentType, status, body)
}

// plainOutputs returns the outputs for a body without an encoding.
func plainOutputs(contentType string, status int, body []byte) jsontext.Value {
	body = bytes.TrimPrefix(body, toolcall.ByteOrderMark)
	base := mediatype.Base(contentType)
	switch {
	case status == http.StatusPartialContent:
		return engagement.Omitted{Bytes: int64(len(body)), Why: engagement.OmittedPart}.JSON()
	case mediatype.IsJSON(base):
		return body // JSON that is not strict is omitted
	case base == "" && startsJSON(body) && wire.Check(body) == nil:
		return body
	case (base == "" || toolcall.IsText(base)) && utf8.Valid(body):
		return wire.AppendString(nil, body)
	}
	return describeBody(contentType, len(body))
}

func startsJSON(body []byte) bool {
	body = bytes.TrimSpace(body)
	return len(body) > 0 && (body[0] == '{' || body[0] == '[')
}

// declaresOtherCharset reports whether text may be in a character set other than UTF-8.
func declaresOtherCharset(contentType string) bool {
	if !strings.Contains(contentType, "=") || !toolcall.IsText(contentType) {
		return false
	}
	_, parameters, err := mime.ParseMediaType(contentType)
	charset := strings.ToLower(parameters["charset"])
	return err == nil && charset != "" && charset != "utf-8" && charset != "us-ascii"
}

// omitUndecodable returns the placeholder for a body that could not be decoded.
func omitUndecodable(err error, body []byte, limit int64) jsontext.Value {
	if errors.Is(err, buffer.ErrTooLarge) {
		return engagement.Omitted{Bytes: int64(len(body)), Why: engagement.OmittedAnswer, Limit: limit}.JSON()
	}
	return engagement.Omitted{Bytes: int64(len(body)), Why: engagement.OmittedEncoding}.JSON()
}

var errUnknownCharset = errors.New("the character set is not known")

// decodedCopy decodes the content coding of a body, and converts text to UTF-8.
func decodedCopy(header http.Header, body []byte, limit int64) (*buffer.Buffer, error) {
	header = maps.Clone(header)
	content := buffer.Get()
	content.B = append(content.B, body...)
	content, err := toolcall.DecodeBody(header, content, limit)
	if err == nil {
		content, err = toolcall.DecodeText(header, content, limit)
	}
	if err != nil {
		return nil, err
	}
	if declaresOtherCharset(header.Get("Content-Type")) {
		buffer.Put(content)
		return nil, errUnknownCharset
	}
	return content, nil
}

// describeBody returns the outputs for a body that expressions cannot read.
func describeBody(contentType string, size int) jsontext.Value {
	base, _, _ := strings.Cut(contentType, ";")
	b := append([]byte(nil), `{"_media_type":`...)
	b = wire.AppendString(b, strings.ToValidUTF8(strings.ToLower(strings.TrimSpace(base)), ""))
	b = append(b, `,"_bytes":`...)
	return append(strconv.AppendInt(b, int64(size), 10), '}')
}

var descriptionPrefix = []byte(`{"_media_type":`)

func isDescription(outputs jsontext.Value) bool { return bytes.HasPrefix(outputs, descriptionPrefix) }

// readsDescription reports whether an expression handles opaque bodies. In any other expression, a
// test that a member is absent would hold for every opaque body.
func readsDescription(expression string) bool {
	return strings.Contains(expression, "_media_type") || strings.Contains(expression, "_bytes")
}

// omitDescription replaces opaque outputs by a placeholder, so that an assertion that reads them
// fails.
func omitDescription(outputs jsontext.Value) jsontext.Value {
	size, _ := strconv.ParseInt(string(outputs[bytes.LastIndexByte(outputs, ':')+1:len(outputs)-1]), 10, 64)
	return engagement.Omitted{Bytes: size, Why: engagement.OmittedForm}.JSON()
}

// responseBody converts outputs back to a response body. A string becomes text, unless the tool
// returns JSON.
func responseBody(op *agentset.Operation, outputs jsontext.Value) (contentType string, body []byte) {
	if len(outputs) == 0 {
		return "", nil
	}
	if outputs.Kind() == '"' {
		text, err := jsontext.AppendUnquote(nil, outputs)
		if err == nil && !op.ReturnsJSON() {
			return "text/plain; charset=utf-8", text
		}
	}
	return "application/json", outputs
}
