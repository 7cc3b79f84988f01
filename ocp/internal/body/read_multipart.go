package body

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/internal/style"
)

// fields is a parsed form.
type fields struct {
	pairs  []style.Pair
	parts  []part // the part of each pair; nil for a URL-encoded form
	hidden []int  // positions of pairs that are hidden from a styled field
}

// part is the metadata of a part of a multipart body, except its name.
type part struct {
	file     bool // the part has a file name
	filename string
	full     string // its Content-Type, "" if it has none
	json     bool   // whether the Content-Type is JSON
}

// readParts parses a multipart/form-data body (RFC 7578).
func readParts(body []byte, boundary string) (*fields, error) {
	if boundary == "" {
		return nil, unread(style.Malformed, "", "has no boundary in its Content-Type")
	}
	// Text before the first part or after the last one is rejected, since some
	// servers read it.
	if !bytes.HasPrefix(body, []byte("--"+boundary+"\r\n")) && !bytes.HasPrefix(body, []byte("--"+boundary+"--")) {
		return nil, unread(style.Malformed, "", "does not begin with its boundary and CR LF")
	}
	if !bytes.HasSuffix(bytes.TrimSuffix(body, []byte("\r\n")), []byte("--"+boundary+"--")) {
		return nil, unread(style.Malformed, "", "does not end with its boundary")
	}
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	f := new(fields)
	for {
		p, err := reader.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			return f, nil
		case err != nil:
			return nil, unread(style.Malformed, "", "cannot be divided into its parts: "+err.Error())
		case len(f.pairs) == MaxParts:
			return nil, unread(style.Malformed, "", "has too many parts")
		}
		if err := f.addPart(p); err != nil {
			return nil, err
		}
	}
}

func (f *fields) addPart(p *multipart.Part) error {
	for _, header := range [...]string{"Content-Disposition", "Content-Type", "Content-Transfer-Encoding"} {
		if len(p.Header[header]) > 1 {
			return unread(style.Duplicate, "", "has a part with more than one "+header)
		}
	}
	disposition, parameters, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	name, named := parameters["name"]
	if err != nil || disposition != "form-data" || !named {
		return unread(style.Malformed, "", "has a part whose Content-Disposition is not form-data with a name")
	}
	name = unquoted(name)
	if strings.Contains(strings.ToLower(p.Header.Get("Content-Disposition")), "name*") {
		return unread(style.Ambiguous, text.Cut(name, maxShown), "has a name or file name in extended notation, which servers read in different ways")
	}
	switch strings.ToLower(p.Header.Get("Content-Transfer-Encoding")) {
	case "", "7bit", "8bit", "binary":
	default:
		return unread(style.Ambiguous, text.Cut(name, maxShown), "has a Content-Transfer-Encoding, which some servers decode and others do not")
	}
	content, err := io.ReadAll(p)
	if err != nil {
		return unread(style.Malformed, text.Cut(name, maxShown), "cannot be read: "+err.Error())
	}
	made := part{full: p.Header.Get("Content-Type")}
	made.filename, made.file = parameters["filename"]
	made.filename = unquoted(made.filename)
	if made.full != "" {
		base, typed, err := mime.ParseMediaType(made.full)
		charset := strings.ToLower(typed["charset"])
		if err != nil || !made.file && charset != "" && charset != "utf-8" && charset != "utf8" && !isASCII(content) {
			return unread(Charset, text.Cut(name, maxShown), "is of the type "+text.Cut(made.full, maxShown)+", which cannot be read: send text in UTF-8")
		}
		made.json = kindOf(base) == JSON
	}
	if !utf8.ValidString(name) || !utf8.ValidString(made.filename) || !utf8.ValidString(made.full) {
		return unread(style.Malformed, "", "has a part whose name or type is not text in UTF-8")
	}
	f.pairs = append(f.pairs, style.Pair{Name: name, Value: string(content)})
	f.parts = append(f.parts, made)
	return nil
}

// unquoted is the inverse of appendQuoted.
func unquoted(name string) string {
	if strings.IndexByte(name, '%') < 0 {
		return name
	}
	var text strings.Builder
	for i := 0; i < len(name); i++ {
		if c, ok := quotedByte(name[i:]); ok {
			text.WriteByte(c)
			i += len("XX")
			continue
		}
		text.WriteByte(name[i])
	}
	return text.String()
}

// quotedByte returns the byte for a %XX sequence that appendQuoted writes.
func quotedByte(text string) (c byte, ok bool) {
	if len(text) < len("%XX") || text[0] != '%' {
		return 0, false
	}
	high, low := strings.IndexByte(upperHex, text[1]), strings.IndexByte(upperHex, text[2])
	if high < 0 || low < 0 {
		return 0, false
	}
	c = byte(high<<4 | low)
	return c, c < ' ' || c == 0x7f || c == '"' || c == '\\'
}

const upperHex = "0123456789ABCDEF"

// value returns the JSON of the pair at position i.
func (f *fields) value(i int, plan *field, types style.Types) ([]byte, error) {
	p := &f.pairs[i]
	if f.parts == nil {
		return readText(p.Name, p.Value, plan.kind, types)
	}
	made := &f.parts[i]
	kind := plan.kind
	switch {
	case plan.file, made.file && (plan.either || types == 0):
		return appendFile(nil, []byte(p.Value), made.filename, made.full), nil
	case made.file:
		return nil, unread(style.Unfit, text.Cut(p.Name, maxShown), "is a file, and the document does not have one there")
	case plan.either:
		types &^= style.Object // in a multipart body, an object is a file
	case made.json:
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
