package body

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// appendBinary appends the bytes of a file argument that is the whole body. Its file
// name is not sent.
func (e *Encoder) appendBinary(dst []byte, value jsontext.Value) ([]byte, string, error) {
	f, err := readFile("body", value)
	if err != nil {
		return dst, "", err
	}
	contentType, problem := e.types.choose(f.wanted)
	if problem != "" {
		return dst, "", refuse("body", problem)
	}
	body, err := f.appendData(dst, "body")
	if err != nil {
		return dst, "", err
	}
	return body, contentType, nil
}

func (e *Encoder) appendText(dst []byte, value jsontext.Value) ([]byte, string, error) {
	if e.kind == XML && value.Kind() != '"' {
		return dst, "", refuse("body", "must be a string that holds the XML document")
	}
	body, err := appendAsText(dst, value)
	if err != nil {
		return dst, "", refuse("body", "is not valid JSON")
	}
	contentType, problem := e.textType(body[len(dst):])
	if problem != "" {
		return dst, "", refuse("body", problem)
	}
	return body, contentType, nil
}

// textType returns the Content-Type of a text body. UTF-8 is added as the charset if
// the type declares none and needs one. XML declares its encoding itself.
func (e *Encoder) textType(text []byte) (contentType, problem string) {
	charset := strings.ToLower(e.types[0].charset)
	switch {
	case charset == "utf-8" || charset == "utf8" || isASCII(text):
		return e.declared, ""
	case charset != "":
		return "", "must be plain ASCII: the API takes it in " + charset + ", and it is sent as UTF-8"
	case e.kind == XML:
		return e.declared, ""
	}
	return e.declared + "; charset=utf-8", ""
}

// appendAsText appends the content of a string, or the JSON of any other value.
func appendAsText(dst []byte, value jsontext.Value) ([]byte, error) {
	if value.Kind() == '"' {
		return jsontext.AppendUnquote(dst, value)
	}
	return append(dst, value...), nil
}

func isASCII(text []byte) bool {
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
