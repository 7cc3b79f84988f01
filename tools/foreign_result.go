package tools

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/result"
)

type nativeResultKey struct{}

// ContextWithNativeResult returns a context for calls whose caller understands the results of MCP servers. Others get
// what such a result means (Unwrap).
func ContextWithNativeResult(ctx context.Context) context.Context {
	return context.WithValue(ctx, nativeResultKey{}, true)
}

// WantsNativeResult reports whether the caller understands the results of MCP servers.
func WantsNativeResult(ctx context.Context) bool {
	wants, _ := ctx.Value(nativeResultKey{}).(bool)
	return wants
}

// Unwrap replaces the result of an MCP server, a CallToolResult, with the value that it means: structuredContent, or the
// content if that is a single block of text, an image or audio. Several blocks stay a JSON array. It returns a *Failure,
// and leaves the result unchanged, if the result has no value: the server returned an error or needs something from the client.
func (t *Tool) Unwrap(r *Result) error {
	native := jsontext.Value(r.Body)
	content := strictjson.MemberOf(native, "content")
	switch {
	case t.IsRequest() && strictjson.HasMember(native, "contents"), t.IsRequest() && strictjson.HasMember(native, "messages"):
		r.Header["Content-Type"] = []string{"application/json"}
		return nil
	case strictjson.HasMember(native, "error") && strictjson.MemberOf(native, "error").Kind() != 'n':
		return t.foreignFailure(r, strictjson.Text(strictjson.MemberOf(strictjson.MemberOf(native, "error"), "message")))
	case strictjson.MemberOf(native, "isError").Kind() == 't':
		return t.foreignFailure(r, textOf(content))
	case strictjson.Text(strictjson.MemberOf(native, "resultType")) == "input_required":
		return &Failure{Kind: Unanswered, Status: r.Status, Message: t.Name + " needs input from the user or the client, which this way of calling it cannot give"}
	}
	body, mediaType := valueOf(strictjson.MemberOf(native, "structuredContent"), content)
	r.Body = body
	r.Header["Content-Type"] = []string{mediaType}
	delete(r.Header, "Content-Length")
	return nil
}

func (t *Tool) foreignFailure(r *Result, message string) *Failure {
	message = cmp.Or(message, "the MCP server gives no reason")
	return &Failure{Kind: Failed, Status: http.StatusBadGateway, Message: t.Name + " failed: " + text.Cut(message, result.MaxDetail)}
}

// textOf returns the text blocks of content.
func textOf(content jsontext.Value) string {
	var texts []string
	for walk := strictjson.Into(content); walk.Next(); {
		if block := strictjson.Text(strictjson.MemberOf(walk.Value, "text")); block != "" {
			texts = append(texts, block)
		}
	}
	return strings.Join(texts, "\n")
}

// valueOf returns the value of a result and its media type.
func valueOf(structured, content jsontext.Value) (body []byte, mediaType string) {
	const isJSON = "application/json"
	switch {
	case structured != nil && structured.Kind() != 'n':
		return structured, isJSON
	case content == nil || content.Kind() == 'n':
		return []byte("[]"), isJSON
	}
	var first jsontext.Value
	blocks := 0
	for walk := strictjson.Into(content); walk.Next(); blocks++ {
		first = walk.Value
	}
	if blocks != 1 {
		return content, isJSON
	}
	switch strictjson.Text(strictjson.MemberOf(first, "type")) {
	case "text":
		body = []byte(strictjson.Text(strictjson.MemberOf(first, "text")))
		if kind := jsontext.Value(body).Kind(); (kind == '{' || kind == '[') && strictjson.Check(body) == nil {
			return body, isJSON
		}
		return body, "text/plain; charset=utf-8"
	case "image", "audio":
		data, err := base64.StdEncoding.DecodeString(strictjson.Text(strictjson.MemberOf(first, "data")))
		if mediaType = strictjson.Text(strictjson.MemberOf(first, "mimeType")); err == nil && mediaType != "" {
			return data, mediaType
		}
	}
	return content, isJSON
}
