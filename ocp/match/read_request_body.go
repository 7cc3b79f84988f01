package match

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/mediatype"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/body"
	"github.com/fairwayhq/fairway/ocp/internal/plan"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// bodyReader reads the arguments in the body of one request.
type bodyReader struct {
	*target
	request    *http.Request
	arguments  *argumentObject
	undeclared []wire.Member
}

func (r *bodyReader) read(content []byte) error {
	if len(content) == 0 {
		return nil
	}
	planned := r.planned.Body
	if planned == nil {
		return r.refuseBody(UndeclaredBody, "is not declared by the document: send the request without a body")
	}
	contentType, err := r.contentType()
	if err != nil {
		return err
	}
	encoder := planned.EncoderFor(contentType)
	if planned.Encoders != nil {
		r.arguments.begin(r.all[planned.TypeArgument].Name)
		r.arguments.text = wire.AppendString(r.arguments.text, mediatype.Base(encoder.ContentType()))
	}
	if planned.Whole >= 0 {
		a := &r.all[planned.Whole]
		_, value := r.arguments.begin(a.Name)
		if r.arguments.text, err = encoder.ReadValue(r.arguments.text, content, contentType, r.plan.shapes[planned.Whole]); err != nil {
			return err
		}
		if err := r.checkOverrides(r.arguments.text[value:]); err != nil {
			return err
		}
		return r.checkType(planned.Whole, r.arguments.text[value:])
	}
	var onStack [16]wire.Member
	members, err := encoder.ReadObject(onStack[:0], content, contentType, &r.plan.body)
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
			return "", r.refuseBody(EncodedBody, "has the Content-Encoding "+text.Cut(coding, validate.MaxProblem)+": send it as it is")
		}
	}
	switch types := header["Content-Type"]; len(types) {
	case 0:
		return "", nil
	case 1:
		return types[0], nil
	}
	return "", r.refuseBody(DuplicateValue, "has more than one Content-Type")
}

// readProperty reads a property of the body as an argument or as an undeclared property.
func (r *bodyReader) readProperty(m wire.Member) error {
	if i, declared := r.plan.properties[m.Name]; declared && r.planned.Arguments[i].Filled {
		return r.fixed().checkProperty(i, m.Value)
	} else if declared {
		if err := r.checkType(i, m.Value); err != nil {
			return err
		}
		r.arguments.begin(r.all[i].Name)
		r.arguments.text = append(r.arguments.text, m.Value...)
		return nil
	}
	if err := r.checkOverride(m.Name, m.Value); err != nil {
		return err
	}
	if err := r.plan.checkUndeclared(tool.InBody, m.Name); err != nil {
		return err
	}
	if r.plan.undeclaredMember(r.tool, m.Name) {
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
	for walk := wire.Into(body); walk.Next(); {
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
	return r.refuseBody(MethodOverride, "has a field "+name+", which some servers read as the method of the request: omit it")
}

// namesMethod reports whether a method override field names the request's own method.
func (r *bodyReader) namesMethod(value jsontext.Value) bool {
	text, err := wire.Decode(value)
	return err == nil && text == any(r.request.Method)
}

// checkType returns an error if a JSON value has none of the argument's types. Text was
// converted to one of them when it was read.
func (r *bodyReader) checkType(argument int, value jsontext.Value) error {
	a := &r.all[argument]
	if r.planned.Body.Encoder.Kind() != body.JSON || plan.Fits(value, a.Types()) || value.Kind() == 'n' && r.planned.Arguments[argument].DropNull {
		return nil
	}
	name := "body"
	if a.WireName != "" {
		name += " parameter " + a.WireName
	}
	return &RequestError{
		Kind: UnfitValue, In: tool.InBody, Name: a.WireName,
		Message: "the " + name + " must be " + strings.Join(a.Types(), " or ") + ", and is " + wire.KindName(value.Kind()),
	}
}

func (r *bodyReader) refuseBody(kind RequestErrorKind, problem string) error {
	return &RequestError{Kind: kind, In: tool.InBody, Message: "the body of " + r.tool.Operation() + " " + problem}
}

// isOverride reports whether frameworks use the parameter or field with that name as the
// method instead of the request's.
func isOverride(name string) bool {
	for _, known := range [...]string{"_method", "_HttpMethod", "$httpMethod", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		if strings.EqualFold(known, name) {
			return true
		}
	}
	return false
}
