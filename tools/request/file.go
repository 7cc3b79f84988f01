package request

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// FileSchema is the JSON Schema 2020-12 of an argument that is a file. A plain base64
// string is accepted as well, but the schema describes one form only, so that a model
// cannot confuse the two.
const FileSchema = `{"type":"object","properties":{` +
	`"data":{"type":"string","contentEncoding":"base64","description":"the content of the file in base64"},` +
	`"filename":{"type":"string","maxLength":255,"description":"the name of the file, such as report.pdf"},` +
	`"type":{"type":"string","description":"the media type of the file, such as application/pdf"}},` +
	`"required":["data"],"additionalProperties":false}`

// Accepts returns the media types and ranges that the document allows for a file, with ", " between them: a property of a form, or
// the whole body if there is no property of that name. "" means any.
func (e *Encoder) Accepts(name string) string {
	if f := e.fields[name]; f != nil {
		return f.types.String()
	}
	return e.types.String()
}

// A file is a parsed argument of the form that FileSchema describes.
type file struct {
	data     jsontext.Value // a JSON string that holds base64
	filename string
	wanted   string // the media type that the argument requests
}

// readFile parses a file argument.
func readFile(name string, value jsontext.Value) (file, error) {
	switch value.Kind() {
	case '"':
		return file{data: value}, nil
	case '{':
	default:
		return file{}, refuse(name, `must be a file: an object {"data": base64, "filename": …, "type": …}`)
	}
	var f file
	walk := strictjson.Into(value)
	for walk.Next() {
		if err := f.set(name, walk.Name, walk.Value); err != nil {
			return file{}, err
		}
	}
	switch {
	case walk.Err() != nil:
		return file{}, refuse(name, "is not valid JSON")
	case f.data == nil:
		return file{}, refuse(name, `lacks "data", the content of the file in base64`)
	}
	return f, nil
}

func (f *file) set(argument string, name, value jsontext.Value) error {
	key, err := jsontext.AppendUnquote(nil, name)
	if err != nil {
		return refuse(argument, "is not valid JSON")
	}
	if value.Kind() == 'n' && string(key) != "data" {
		return nil
	}
	if value.Kind() != '"' {
		return refuse(argument, "must have strings only in its "+strconv.Quote(string(key)))
	}
	switch string(key) {
	case "data":
		f.data = value
		return nil
	case "filename", "type":
	default:
		return refuse(argument, "has an unknown member "+strconv.Quote(string(key))+": a file has data, filename and type")
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return refuse(argument, "is not valid JSON")
	}
	if string(key) == "type" {
		f.wanted = string(text)
		return nil
	}
	f.filename = strings.ReplaceAll(CleanFilename(string(text)), `"`, "'") // servers differ in how they read a quote in a name
	if len(f.filename) > MaxFilename {
		return refuse(argument, "has a filename longer than "+strconv.Itoa(MaxFilename)+" bytes")
	}
	return nil
}

// CleanFilename returns the part of a file name that is safe to send: its last path
// element without control characters, or "" if nothing remains. Some servers treat
// file names as paths.
func CleanFilename(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, name)
	name = strings.TrimSpace(name)
	if strings.Trim(name, ".") == "" {
		return ""
	}
	return name
}

// appendData appends the decoded bytes of a file. The base64 may use the standard or
// the URL-safe alphabet (RFC 4648, sections 4 and 5), with or without padding, and
// may contain line breaks.
func (f file) appendData(dst []byte, name string) ([]byte, error) {
	if len(f.data) < 2 {
		return dst, refuse(name, "is not valid JSON")
	}
	text := []byte(f.data[1 : len(f.data)-1])
	if bytes.IndexByte(text, '\\') >= 0 {
		var err error
		if text, err = jsontext.AppendUnquote(nil, f.data); err != nil {
			return dst, refuse(name, "is not valid JSON")
		}
	}
	alphabet := base64.RawStdEncoding
	if bytes.ContainsAny(text, "-_") {
		alphabet = base64.RawURLEncoding
	}
	text = bytes.TrimRight(text, "\r\n")
	for range 2 {
		text = bytes.TrimSuffix(text, []byte("="))
	}
	decoded, err := alphabet.AppendDecode(dst, text)
	if err == nil {
		return decoded, nil
	}
	if bytes.HasPrefix(text, []byte("data:")) {
		return dst, refuse(name, "is not base64: leave the data: prefix away, up to and with its comma")
	}
	return dst, refuse(name, "is not base64: "+err.Error())
}
