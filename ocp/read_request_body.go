package ocp

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/body"
)

func (r *requestReader) readBody(content []byte) error {
	if len(content) == 0 {
		return nil
	}
	plan := r.tool.body
	if plan == nil {
		return r.refuseBody(UndeclaredBody, "is none that the document declares: send none")
	}
	contentType, err := r.contentType()
	if err != nil {
		return err
	}
	encoder := plan.encoderFor(contentType)
	if plan.encoders != nil {
		r.begin(r.tool.all[plan.typeArgument].Name)
		r.out = wire.AppendString(r.out, mediaType(encoder.ContentType()))
	}
	if plan.whole >= 0 {
		a := &r.tool.all[plan.whole]
		_, value := r.begin(a.Name)
		if r.out, err = encoder.ReadValue(r.out, content, contentType, r.plan.shapes[plan.whole]); err != nil {
			return err
		}
		if err := r.checkOverrides(r.out[value:]); err != nil {
			return err
		}
		return r.checkType(plan.whole, r.out[value:])
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
func (r *requestReader) contentType() (string, error) {
	header := r.request.Header
	for _, coding := range header["Content-Encoding"] {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return "", r.refuseBody(EncodedBody, "has the Content-Encoding "+clip(coding, maxProblem)+": send it as it is")
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
func (r *requestReader) readProperty(m wire.Member) error {
	if i, declared := r.plan.properties[m.Name]; declared && r.tool.plans[i].filled {
		return r.checkFilled(i, m.Value)
	} else if declared {
		if err := r.checkType(i, m.Value); err != nil {
			return err
		}
		r.begin(r.tool.all[i].Name)
		r.out = append(r.out, m.Value...)
		return nil
	}
	if err := r.checkOverride(m.Name, m.Value); err != nil {
		return err
	}
	if err := r.plan.checkUndeclared(InBody, m.Name); err != nil {
		return err
	}
	if r.tool.undeclaredMember(m.Name) {
		r.properties = append(r.properties, m)
		return nil
	}
	r.begin(m.Name)
	r.out = append(r.out, m.Value...)
	return nil
}

// checkOverrides calls checkOverride for each member of a body that is a single argument.
func (r *requestReader) checkOverrides(body jsontext.Value) error {
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
func (r *requestReader) checkOverride(name string, value jsontext.Value) error {
	if !isOverride(name) || r.namesMethod(value) {
		return nil
	}
	return r.refuseBody(MethodOverride, "has a field "+name+", by which some servers take the request for one of another method")
}

// namesMethod reports whether a method override field names the request's own method.
func (r *requestReader) namesMethod(value jsontext.Value) bool {
	text, err := wire.Decode(value)
	return err == nil && text == any(r.request.Method)
}

// checkType returns an error if a JSON value has none of the argument's types. Text was
// converted to one of them when it was read.
func (r *requestReader) checkType(argument int, value jsontext.Value) error {
	a := &r.tool.all[argument]
	if r.tool.body.encoder.Kind() != body.JSON || fits(value, a.types) || isNull(value) && r.tool.plans[argument].dropNull {
		return nil
	}
	name := "body"
	if a.WireName != "" {
		name += " parameter " + a.WireName
	}
	return &RequestError{
		Kind: UnfitValue, In: InBody, Name: a.WireName,
		Message: "the " + name + " must be " + strings.Join(a.types, " or ") + ", and is " + wire.KindName(value.Kind()),
	}
}

func (r *requestReader) refuseBody(kind RequestErrorKind, problem string) error {
	return &RequestError{Kind: kind, In: InBody, Message: "the body of " + r.tool.where() + " " + problem}
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
