package plainrequest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// Rewrite changes what servers read in different ways in a request to t, as far as it can: bytes in the
// query that are not ASCII, and a multipart body. It returns the body to read and to forward instead of
// body, and sets the Content-Type. The error is a *match.RequestError.
func Rewrite(t *tools.Tool, r *http.Request, content []byte) ([]byte, error) {
	if query := r.URL.RawQuery; !isASCIIText(query) {
		var escaped strings.Builder
		for _, c := range []byte(query) {
			if c < utf8.RuneSelf {
				escaped.WriteByte(c)
			} else {
				fmt.Fprintf(&escaped, "%%%02X", c)
			}
		}
		r.URL.RawQuery = escaped.String()
	}
	planned, types := t.Plan.Body, r.Header["Content-Type"]
	if len(content) == 0 || planned == nil || len(types) != 1 {
		return content, nil
	}
	encoder := planned.EncoderFor(types[0])
	if encoder.Kind() != request.Multipart || httpheader.MediaType(types[0]) != "multipart/form-data" {
		return content, nil
	}
	rewritten, contentType, err := encoder.Rewrite(content, types[0])
	if err != nil {
		return nil, requestError(err)
	}
	r.Header["Content-Type"] = []string{contentType}
	for _, digest := range [...]string{"Content-Digest", "Content-Md5", "Digest", "Repr-Digest"} {
		delete(r.Header, digest) // of the bytes that were received
	}
	return rewritten, nil
}

// bodyReader reads the arguments in the body of one request.
type bodyReader struct {
	*requestPlan
	request    *http.Request
	arguments  *argumentObject
	undeclared []strictjson.Member
}

func (r *bodyReader) read(content []byte) error {
	if len(content) == 0 {
		return nil
	}
	planned := r.tool.Plan.Body
	if planned == nil {
		return r.refuseBody(undeclaredBody, "is not declared by the document: send the request without a body")
	}
	contentType, err := r.contentType()
	if err != nil {
		return err
	}
	encoder := planned.EncoderFor(contentType)
	if planned.Encoders != nil {
		r.arguments.begin(r.declared[planned.TypeArgument].Name)
		r.arguments.text = strictjson.AppendString(r.arguments.text, httpheader.MediaType(encoder.ContentType()))
	}
	if planned.Whole >= 0 {
		a := &r.declared[planned.Whole]
		_, value := r.arguments.begin(a.Name)
		if r.arguments.text, err = encoder.ReadValue(r.arguments.text, content, contentType, r.shapes[planned.Whole]); err != nil {
			return err
		}
		if err := r.checkOverrides(r.arguments.text[value:]); err != nil {
			return err
		}
		return r.checkType(planned.Whole, r.arguments.text[value:])
	}
	var onStack [16]strictjson.Member
	members, err := encoder.ReadObject(onStack[:0], content, contentType, &r.body)
	if err != nil {
		return err
	}
	for _, m := range members {
		if err := r.readProperty(m); err != nil {
			return err
		}
	}
	return nil
}

// contentType returns the Content-Type of the body. It returns an error if the body cannot
// be read without conversion.
func (r *bodyReader) contentType() (string, error) {
	header := r.request.Header
	for _, coding := range header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return "", r.refuseBody(encodedBody, "has the Content-Encoding "+text.Cut(coding, schema.MaxProblem)+": send it as it is")
		}
	}
	switch types := header["Content-Type"]; len(types) {
	case 0:
		return "", nil
	case 1:
		return types[0], nil
	}
	return "", r.refuseBody(request.Duplicate, "has more than one Content-Type")
}

// readProperty reads a property of the body as an argument or as an undeclared property.
func (r *bodyReader) readProperty(m strictjson.Member) error {
	if i, declared := r.properties[m.Name]; declared && r.encodings[i].Filled {
		return r.checkFilledProperty(i, m.Value)
	} else if declared {
		if err := r.checkType(i, m.Value); err != nil {
			return err
		}
		r.arguments.begin(r.declared[i].Name)
		r.arguments.text = append(r.arguments.text, m.Value...)
		return nil
	}
	if err := r.checkOverride(m.Name, m.Value); err != nil {
		return err
	}
	if err := r.checkUndeclared(tools.InBody, m.Name); err != nil {
		return err
	}
	if r.undeclaredMember(m.Name) {
		r.undeclared = append(r.undeclared, m)
		return nil
	}
	r.arguments.begin(m.Name)
	r.arguments.text = append(r.arguments.text, m.Value...)
	return nil
}

// checkOverrides calls checkOverride for each member of a body that is a single argument.
func (r *bodyReader) checkOverrides(body jsontext.Value) error {
	if body.Kind() != '{' {
		return nil
	}
	for walk := strictjson.Into(body); walk.Next(); {
		name, err := jsontext.AppendUnquote(nil, walk.Name)
		if err != nil {
			return err
		}
		if err := r.checkOverride(string(name), walk.Value); err != nil {
			return err
		}
	}
	return nil
}

// checkOverride rejects a field that requests a different method.
func (r *bodyReader) checkOverride(name string, value jsontext.Value) error {
	if !isOverride(name) || r.namesMethod(value) {
		return nil
	}
	return r.refuseBody(methodOverride, "has a field "+name+", which some servers read as the method of the request: omit it")
}

// namesMethod reports whether a method override field names the request's own method.
func (r *bodyReader) namesMethod(value jsontext.Value) bool {
	source, err := strictjson.Decode(value)
	return err == nil && source == any(r.request.Method)
}

// checkType returns an error if a JSON value has none of the argument's types. Text was
// converted to one of them when it was read.
func (r *bodyReader) checkType(argument int, value jsontext.Value) error {
	a := &r.declared[argument]
	if r.tool.Plan.Body.Encoder.Kind() != request.JSON || request.Fits(value, a.Types()) || value.Kind() == 'n' && r.encodings[argument].DropNull {
		return nil
	}
	name := "body"
	if a.WireName != "" {
		name += " parameter " + a.WireName
	}
	return &match.RequestError{
		Kind: request.Unfit, In: tools.InBody, Name: a.WireName,
		Message: "the " + name + " must be " + strings.Join(a.Types(), " or ") + ", and is " + strictjson.KindName(value.Kind()),
	}
}

func (r *bodyReader) refuseBody(kind request.ReadKind, problem string) error {
	return &match.RequestError{Kind: kind, In: tools.InBody, Message: "the body of " + r.tool.Operation() + " " + problem}
}

// isOverride reports whether frameworks use the parameter or field with that name as the
// method instead of the request's.
func isOverride(name string) bool {
	known := []string{"_method", "_HttpMethod", "$httpMethod", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}
	return slices.ContainsFunc(known, func(one string) bool { return strings.EqualFold(one, name) })
}
