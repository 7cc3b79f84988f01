package request

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// A parts is a multipart/form-data body that is being written (RFC 7578).
type parts struct {
	dst      []byte
	boundary string
	count    int
}

func newBoundary() string { return "fairway-" + rand.Text() }

func (p *parts) contentType() string { return "multipart/form-data; boundary=" + p.boundary }

// close writes the boundary after the last part.
func (p *parts) close() {
	p.dst = append(append(append(p.dst, "--"...), p.boundary...), "--\r\n"...)
}

// appendMultipart appends the members as parts. A file becomes a part with a file name,
// an array one part per item. A property whose Encoding Object has a style becomes one
// part per pair of that style.
func (e *Encoder) appendMultipart(dst []byte, members []strictjson.Member) ([]byte, string, error) {
	for {
		p := parts{dst: dst, boundary: newBoundary()}
		for _, m := range members {
			f, err := e.field(m.Name)
			if err == nil {
				err = p.addProperty(f, m)
			}
			if err != nil {
				return dst, "", err
			}
		}
		p.close()
		// If the content contains the boundary, the reader would split it there.
		if bytes.Count(p.dst[len(dst):], []byte(p.boundary)) == p.count+1 {
			return p.dst, p.contentType(), nil
		}
	}
}

func (p *parts) addProperty(f *field, m strictjson.Member) error {
	if f.styled != nil {
		return p.addPairs(f.styled, m)
	}
	if m.Value.Kind() != '[' {
		return p.addValue(f, m.Name, m.Value)
	}
	for walk := strictjson.Into(m.Value); walk.Next(); {
		if err := p.addValue(f, m.Name, walk.Value); err != nil {
			return err
		}
	}
	return nil
}

func (p *parts) addValue(f *field, name string, value jsontext.Value) error {
	switch {
	case value.Kind() == 'n':
		return nil
	case f.file || f.either && value.Kind() == '{':
		return p.addFile(f, name, value)
	}
	if err := f.check(name, value); err != nil {
		return err
	}
	contentType := "" // means text/plain; some servers treat parts with an explicit Content-Type as files
	switch {
	case f.types != nil:
		contentType, _ = f.types.preferred()
	case value.Kind() == '{' || value.Kind() == '[':
		contentType = "application/json"
	}
	if err := p.open(name, "", contentType); err != nil {
		return err
	}
	if f.kind == JSON {
		p.dst = append(p.dst, value...)
	} else {
		body, err := appendAsText(p.dst, value)
		if err != nil {
			return refuse(name, "is not valid JSON")
		}
		p.dst = body
	}
	p.dst = append(p.dst, "\r\n"...)
	return nil
}

func (p *parts) addFile(f *field, name string, value jsontext.Value) error {
	content, err := readFile(name, value)
	if err != nil {
		return err
	}
	contentType, problem := f.types.choose(content.wanted)
	if problem != "" {
		return refuse(name, problem)
	}
	content.filename = cmp.Or(content.filename, "file") // servers treat a part as a file only if it has a file name
	if err := p.open(name, content.filename, contentType); err != nil {
		return err
	}
	if p.dst, err = content.appendData(p.dst, name); err != nil {
		return err
	}
	p.dst = append(p.dst, "\r\n"...)
	return nil
}

// addPairs adds a part for each pair that a style makes of a property. Names and
// values of parts are not percent-encoded.
func (p *parts) addPairs(s *Serializer, m strictjson.Member) error {
	pairs, err := s.Append(nil, m.Value)
	if err != nil || len(pairs) == 0 {
		return err
	}
	for pair := range strings.SplitSeq(string(pairs), "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name, err = url.PathUnescape(name); err == nil {
			value, err = url.PathUnescape(value)
		}
		if err != nil {
			return refuse(m.Name, "cannot be sent: "+err.Error())
		}
		if err := p.open(name, "", ""); err != nil {
			return err
		}
		p.dst = append(append(p.dst, value...), "\r\n"...)
	}
	return nil
}

// open writes the header of a part.
func (p *parts) open(name, filename, contentType string) error {
	if p.count++; p.count > MaxParts {
		return refuse(name, "makes too many parts: a multipart body may have "+strconv.Itoa(MaxParts))
	}
	p.dst = append(append(append(p.dst, "--"...), p.boundary...), "\r\nContent-Disposition: form-data; name=\""...)
	p.dst = appendQuoted(p.dst, name)
	if filename != "" {
		p.dst = appendQuoted(append(p.dst, "\"; filename=\""...), filename)
	}
	p.dst = append(p.dst, "\"\r\n"...)
	if contentType != "" {
		p.dst = append(append(append(p.dst, "Content-Type: "...), contentType...), "\r\n"...)
	}
	p.dst = append(p.dst, "\r\n"...)
	return nil
}

// appendQuoted appends the name of a field or file as browsers write it (WHATWG HTML,
// multipart/form-data encoding algorithm): UTF-8 unchanged, quotes and line breaks
// percent-encoded. Backslashes are percent-encoded as well, since some readers treat
// them as escapes and others do not.
func appendQuoted(dst []byte, name string) []byte {
	for i := range len(name) {
		switch c := name[i]; {
		case c < ' ' || c == 0x7f || c == '"' || c == '\\':
			const hex = "0123456789ABCDEF"
			dst = append(dst, '%', hex[c>>4], hex[c&0xf])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
