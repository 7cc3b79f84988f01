package protocol

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

// paramHeader starts the names of headers that repeat an argument marked with x-mcp-header (MCP
// 2026-07-28, Streamable HTTP, Custom Headers from Tool Parameters).
const paramHeader = "Mcp-Param-"

// maxSafeInteger is the largest integer that a float64 represents exactly.
const maxSafeInteger = 1<<53 - 1

// An ArgumentHeader is a header that repeats an argument of a tool call.
type ArgumentHeader struct {
	header   string // in canonical form
	shown    string // as in error messages
	argument string
}

// ArgumentHeaders returns the headers that repeat arguments of the tool. Clients do not see
// non-inferrable arguments, so no header repeats them.
func ArgumentHeaders(t *tools.Tool) (headers []ArgumentHeader) {
	for i := range t.Definition.Arguments {
		if a := &t.Definition.Arguments[i]; a.MCPHeader != "" && !a.NonInferrable {
			shown := paramHeader + a.MCPHeader
			headers = append(headers, ArgumentHeader{http.CanonicalHeaderKey(shown), shown, a.Name})
		}
	}
	return headers
}

// ArgumentHeaderName returns the name of the header, in canonical form, that repeats an argument with this x-mcp-header.
func ArgumentHeaderName(name string) string { return http.CanonicalHeaderKey(paramHeader + name) }

// CheckArgumentHeaders checks that headers which repeat arguments have the same values as the arguments. A
// proxy in front of this server may have decided by the headers.
func CheckArgumentHeaders(headers []ArgumentHeader, header http.Header, arguments jsontext.Value) *Fault {
	for i := range headers {
		if f := headers[i].check(header, arguments); f != nil {
			return f
		}
	}
	return nil
}

// SentArgumentHeaders returns the headers that the client has sent. A client that calls a tool through a
// built-in one does not know which headers repeat the arguments, so it may send none.
func SentArgumentHeaders(headers []ArgumentHeader, header http.Header) (sent []ArgumentHeader) {
	for i := range headers {
		if len(header[headers[i].header]) > 0 {
			sent = append(sent, headers[i])
		}
	}
	return sent
}

// check checks the header. It must be absent if the argument is absent or null.
func (h *ArgumentHeader) check(all http.Header, arguments jsontext.Value) *Fault {
	header, argument := h.shown, h.argument
	value := strictjson.MemberOf(arguments, argument)
	values := all[h.header]
	switch value.Kind() {
	case 0, 'n':
		if len(values) > 0 {
			return mismatched("the header %s is sent without the argument %s: send both or neither", header, argument)
		}
		return nil
	case '{', '[':
		return nil // the tool's schema rejects it
	}
	switch {
	case len(values) == 0:
		return mismatched("the header %s is missing: send it with the value of the argument %s", header, argument)
	case len(values) > 1:
		return mismatched("the header %s is sent %d times: send it once, with the value of the argument %s", header, len(values), argument)
	}
	sent, _ := HeaderValue(all, h.header)
	if !IsHeaderText(strings.ReplaceAll(sent, "\t", " ")) {
		return mismatched("the header %s has invalid characters: send its value as =?base64?…?=", header)
	}
	plain, ok := DecodeHeader(sent)
	if !ok || !utf8.ValidString(plain) {
		return mismatched("the header %s is not UTF-8 in valid Base64 between =?base64? and ?=", header)
	}
	if !repeats(plain, value) {
		return mismatched("the header %s is %q and the argument %s is %s: send the same value in both",
			header, text.Cut(plain, text.MaxQuoted), argument, text.Cut(string(value), text.MaxQuoted))
	}
	return nil
}

// repeats reports whether a header equals a scalar argument. Numbers are compared by value: 42.0
// equals 42.
func repeats(header string, value jsontext.Value) bool {
	switch value.Kind() {
	case '"':
		return header == strictjson.Text(value)
	case '0':
		if header == string(value) {
			return true
		}
		a, err := strconv.ParseFloat(header, 64)
		if err != nil || a < -maxSafeInteger || a > maxSafeInteger {
			return false
		}
		b, err := strconv.ParseFloat(string(value), 64)
		return err == nil && a == b
	}
	return header == string(value) // true or false
}
