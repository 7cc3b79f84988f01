package request

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"io"
	"mime"
	"net/textproto"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/text"
)

// fields is a parsed form.
type fields struct {
	pairs  []Pair
	parts  []part // the part of each pair; nil for a URL-encoded form
	hidden []int  // positions of pairs that are hidden from a styled field
}

// part is a part of a multipart body, except its name.
type part struct {
	content  []byte // in the body that was read
	file     bool   // the part has a file name
	filename string
	kind     Kind   // of its Content-Type; 0 if it has none
	full     string // the Content-Type to forward; "" for none
}

// readParts parses a multipart/form-data body (RFC 7578). It accepts only bodies with CR LF and without
// text before the first part or after the last one.
func readParts(body []byte, boundary string) (*fields, error) {
	if boundary == "" {
		return nil, unread(Malformed, "", "has no boundary in its Content-Type")
	}
	rest, begins := bytes.CutPrefix(body, []byte("--"+boundary))
	if !begins {
		return nil, unread(Malformed, "", "does not begin with its boundary")
	}
	f, delimiter, lines := new(fields), []byte("\r\n--"+boundary), bufio.NewReaderSize(nil, 256)
	for {
		if end, closed := bytes.CutPrefix(rest, []byte("--")); closed && (len(end) == 0 || string(end) == "\r\n") {
			return f, nil
		}
		rest, begins = bytes.CutPrefix(rest, []byte("\r\n"))
		header, content, divided := bytes.Cut(rest, []byte("\r\n\r\n"))
		content, after, ended := bytes.Cut(content, delimiter)
		switch {
		case !begins || !divided || !ended:
			return nil, unread(Malformed, "", "cannot be divided into its parts: each line of a boundary or header ends with CR LF, and nothing follows the last boundary")
		case len(f.pairs) == MaxParts:
			return nil, unread(Malformed, "", "has too many parts")
		}
		lines.Reset(io.MultiReader(bytes.NewReader(header), strings.NewReader("\r\n\r\n")))
		if err := f.addPart(lines, content); err != nil {
			return nil, err
		}
		rest = after
	}
}

func (f *fields) addPart(lines *bufio.Reader, content []byte) error {
	header, err := textproto.NewReader(lines).ReadMIMEHeader()
	if err != nil {
		return unread(Malformed, "", "has a part whose header cannot be read: "+err.Error())
	}
	for _, name := range [...]string{"Content-Disposition", "Content-Type", "Content-Transfer-Encoding"} {
		if len(header[name]) > 1 {
			return unread(Duplicate, "", "has a part with more than one "+name)
		}
	}
	disposition, parameters, err := mime.ParseMediaType(header.Get("Content-Disposition"))
	name, named := parameters["name"]
	if err != nil || disposition != "form-data" || !named {
		return unread(Malformed, "", "has a part whose Content-Disposition is not form-data with a name")
	}
	made := part{content: content}
	made.filename, made.file = parameters["filename"]
	switch {
	case strings.Contains(strings.ToLower(header.Get("Content-Disposition")), "name*"):
		return unread(Ambiguous, text.Cut(name, maxShown), "has a name or file name in extended notation, which servers read in different ways")
	case isEscaped(name) || isEscaped(made.filename):
		return unread(Ambiguous, "", "has a name or file name with a quote, a backslash or a control character, plain or percent-encoded, which servers read in different ways")
	case made.file && (made.filename == "" || strings.Contains(made.filename, "/")):
		return unread(Ambiguous, text.Cut(name, maxShown), "has a file name that is empty or a path, which servers read in different ways: send the name of the file only")
	}
	switch strings.ToLower(header.Get("Content-Transfer-Encoding")) {
	case "", "7bit", "8bit", "binary":
	default:
		return unread(Ambiguous, text.Cut(name, maxShown), "has a Content-Transfer-Encoding, which some servers decode and others do not")
	}
	if full := header.Get("Content-Type"); full != "" {
		base, typed, err := mime.ParseMediaType(full)
		charset := strings.ToLower(typed["charset"])
		switch {
		case err != nil || !made.file && charset != "" && charset != "utf-8" && charset != "utf8" && !isASCII(content):
			return unread(Charset, text.Cut(name, maxShown), "is of the type "+text.Cut(full, maxShown)+", which cannot be read: send text in UTF-8")
		case strings.HasPrefix(base, "multipart/"):
			return unread(Ambiguous, text.Cut(name, maxShown), "is of the type "+text.Cut(base, maxShown)+", whose parts some servers read as fields")
		}
		made.kind = kindOf(base)
		switch {
		case made.file:
			made.full = oneLine(full, base, typed)
		case made.kind == JSON || made.kind == XML: // servers ignore the types of other texts, or take these for files
			made.full = base
		}
	}
	if !utf8.ValidString(name) || !utf8.ValidString(made.filename) {
		return unread(Malformed, "", "has a part whose name is not text in UTF-8")
	}
	pair := Pair{Name: name}
	if !made.file {
		pair.Value = string(content)
	}
	f.pairs, f.parts = append(f.pairs, pair), append(f.parts, made)
	return nil
}

// isEscaped reports whether appendQuoted changes the name, or may have written it.
func isEscaped(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c == '%' && len(name) >= i+len("%XX") {
			decoded, err := hex.DecodeString(name[i+1 : i+len("%XX")])
			if err == nil {
				c = decoded[0]
			}
		}
		if c < ' ' || c == 0x7f || c == '"' || c == '\\' {
			return true
		}
	}
	return false
}

// Rewrite returns a multipart/form-data body with the fields and files that ReadObject reads, and its
// Content-Type. Servers read different parts from some bodies; they read the same parts from the result.
func (e *Encoder) Rewrite(body []byte, contentType string) (rewritten []byte, rewrittenType string, err error) {
	parameters, err := e.readType(body, contentType)
	if err != nil {
		return nil, "", err
	}
	f, err := readParts(body, parameters["boundary"])
	if err != nil {
		return nil, "", err
	}
	p := parts{boundary: newBoundary()}
	p.dst = make([]byte, 0, len(body)+(len(f.parts)+1)*(len(p.boundary)+len("--\r\n")))
	for i, made := range f.parts {
		if err := p.open(f.pairs[i].Name, made.filename, made.full); err != nil {
			return nil, "", err
		}
		p.dst = append(append(p.dst, made.content...), "\r\n"...)
	}
	p.close()
	return p.dst, p.contentType(), nil
}

// value returns the JSON of the pair at position i.
func (f *fields) value(i int, plan *field, types Types) ([]byte, error) {
	p := &f.pairs[i]
	if f.parts == nil {
		return readText(p.Name, p.Value, plan.kind, types)
	}
	made := &f.parts[i]
	kind := plan.kind
	switch {
	case plan.file, made.file && (plan.either || types == 0):
		return appendFile(nil, made.content, made.filename, made.full), nil
	case made.file:
		return nil, unread(Unfit, text.Cut(p.Name, maxShown), "is a file, and the document does not have one there")
	case plan.either:
		types &^= Object // in a multipart body, an object is a file
	case made.kind == JSON:
		if kind != JSON && strings.HasPrefix(strings.TrimLeft(p.Value, " \t\r\n"), `"`) {
			return nil, unread(Ambiguous, text.Cut(p.Name, maxShown), "is a JSON string, which some servers read with its quotes: send it as plain text")
		}
		kind = JSON
	}
	return readText(p.Name, p.Value, kind, types)
}

// hideOthers hides from a styled field the pairs of other declared fields, and files.
func (f *fields) hideOthers(e *Encoder, name string) {
	for i := range f.pairs {
		p := &f.pairs[i]
		if p.Taken {
			continue
		}
		_, declared := e.fields[p.Name]
		if p.Name != name && declared || f.parts != nil && f.parts[i].file {
			p.Taken = true
			f.hidden = append(f.hidden, i)
		}
	}
}

func (f *fields) showOthers() {
	for _, i := range f.hidden {
		f.pairs[i].Taken = false
	}
	f.hidden = f.hidden[:0]
}
