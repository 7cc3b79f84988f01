package mcpadapter

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/headervalue"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
)

// paramHeader starts the names of headers that repeat an argument marked with x-mcp-header (MCP
// 2026-07-28, Streamable HTTP, Custom Headers from Tool Parameters).
const paramHeader = "Mcp-Param-"

// maxSafeInteger is the largest integer that a float64 represents exactly.
const maxSafeInteger = 1<<53 - 1

// checkParamHeaders checks that headers which repeat arguments have the same values as the
// arguments. A proxy in front of this server may have decided by the headers. Connections have no
// headers to check.
func (q toolRequest) checkParamHeaders(headers []argumentHeader) *jsonrpc.Fault {
	if !q.version.Stateless() || q.header == nil {
		return nil
	}
	for i := range headers {
		if f := q.checkParamHeader(&headers[i]); f != nil {
			return f
		}
	}
	return nil
}

// checkParamHeader checks one header. It must be absent if the argument is absent or null.
func (q toolRequest) checkParamHeader(h *argumentHeader) *jsonrpc.Fault {
	header, argument := h.shown, h.argument
	value := wire.MemberOf(q.params.arguments, argument)
	values := q.header[h.header]
	switch value.Kind() {
	case 0, 'n':
		if len(values) > 0 {
			return mismatched("the header %s is sent and the argument %s is not: send both or neither", header, argument)
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
	sent, _ := headerValue(q.header, h.header)
	if !headervalue.IsText(strings.ReplaceAll(sent, "\t", " ")) {
		return mismatched("the header %s has characters that a header must not have: send its value as =?base64?…?=", header)
	}
	plain, ok := headervalue.Decode(sent)
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
		return header == wire.Text(value)
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
