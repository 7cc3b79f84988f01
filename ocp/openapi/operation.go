package openapi

import (
	"errors"
	"fmt"
	"strings"
)

// An Operation is one operation of a document, the same for every version of
// OpenAPI. If Err is set it cannot be called, and the fields that describe it
// are filled as far as they could be read.
type Operation struct {
	Method      string // upper case; "" if a path's operations could not be read at all
	Path        string // the key in the Paths Object, "/trips/{id}" or "/trips/{id}#cancel"
	ID          string // operationId, or ""
	Summary     string
	Description string
	Tags        []string
	Deprecated  bool
	BasePath    string // the path of its server, "/api/v1", or ""

	// Template is the part of Path that requests are sent to: it begins with a
	// slash, each "{" and "}" encloses the name of a path parameter, and it has
	// neither query nor fragment.
	Template string

	// ConstantQuery is the query in Path that is sent with every request, without
	// "?" and as the document writes it; "" for none.
	ConstantQuery string

	Parameters []Parameter // the path's, then its own, which override them
	Body       *Body       // nil if it takes none
	Responses  []Response

	// Security is the alternatives one of which must be met: names of schemes
	// with their scopes. It is nil if the document says nothing, and empty but
	// not nil if it says that none is needed.
	Security []map[string][]string

	Warnings []string // what had to be bent or left out to make it usable
	Err      error    // why it cannot be used

	Place // the operation object, for its extensions
}

// A Parameter goes into the path, query, a header or a cookie.
type Parameter struct {
	Name, In      string // In is "path", "query", "header" or "cookie"
	Description   string
	Required      bool
	Deprecated    bool
	AllowReserved bool
	Style         string // as OpenAPI names it, its default filled in; "" if ContentType is set
	Explode       bool   // its default filled in
	ContentType   string // the value is encoded as this media type; "" if by Style
	Schema        Place  // its Node is nil if the document gives none
	Object        Place  // the parameter object, for its extensions
}

// A Body is what an operation takes as its request body.
type Body struct {
	Required    bool
	Description string
	Content     []Media // at least one, in document order
}

// A Response is what an operation answers with one status.
type Response struct {
	Status      string // "200", "2XX" or "default"
	Description string
	Content     []Media // empty if there is no body

	Place // the response object, for its extensions
}

// A Media is one media type of a body and its schema.
type Media struct {
	Type     string // as in the document
	Schema   Place  // its Node is nil if the document gives none
	Encoding []Encoding
}

// An Encoding says how one property of a form is written.
type Encoding struct {
	Name          string // of the property
	ContentType   string // or ""
	Style         string // its default filled in
	Explode       bool   // its default filled in
	AllowReserved bool
	HasStyle      bool // the document gives the style itself
	HasExplode    bool // likewise
}

// Operations returns every operation in document order, those that cannot be
// used among them. Webhooks are not operations of the API. If they take more
// than memory is set aside for, the last has an Err that says so and stands for
// the rest.
func (d *Document) Operations() []Operation {
	l := lister{document: d, budget: budget{maxReading}}
	for _, m := range d.root.Get("paths").Members() {
		if strings.HasPrefix(m.Name, "x-") {
			continue
		}
		if !l.budget.take(partCost) {
			l.lose(m.Name, Place{m.Value, d.root.File}, errTooMuch)
			break
		}
		l.path(m.Name, Place{m.Value, d.root.File})
	}
	return l.all
}

// A lister gathers the operations of a document.
type lister struct {
	document *Document
	budget   budget
	all      []Operation
}

// lose adds a path whose operations cannot be read.
func (l *lister) lose(path string, place Place, err error) {
	l.all = append(l.all, Operation{Path: path, BasePath: l.document.basePath, Err: err, Place: place})
}

// path adds the operations of one path: those of the path item that its $ref
// names, if it has one, and those that stand beside the $ref.
func (l *lister) path(path string, item Place) {
	target, err := item.Resolve()
	if err == nil && target.Kind() != '{' && target.Kind() != 'n' {
		err = errNoObject(target)
	}
	if err != nil {
		l.lose(path, item, errors.New(shorten("path item: "+err.Error())))
		l.item(path, item, Place{})
		return
	}
	l.item(path, target, Place{})
	if target.Node != item.Node {
		l.item(path, item, target)
	}
}

// item adds the operations of one path item but those that the other has too.
func (l *lister) item(path string, item, other Place) {
	if !l.budget.take(partCost * len(item.Members())) {
		l.lose(path, item, errTooMuch)
		return
	}
	for _, m := range item.Members() {
		if other.Get(m.Name) != nil {
			continue
		}
		place := Place{m.Value, item.File}
		switch method, use := methodOf(item, m.Name, l.document.OpenAPI); use {
		case usable:
			l.operation(method, path, item, place)
		case unusable:
			l.all = append(l.all, lostOperation(method, path, place))
		case container:
			for _, extra := range m.Value.Members() {
				if l.budget.take(partCost) {
					l.all = append(l.all, lostOperation(extra.Name, path, Place{extra.Value, item.File}))
				}
			}
		}
	}
}

// use says what a member of a path item is.
type use int

const (
	noMethod  use = iota
	usable        // an operation
	unusable      // an operation whose method no tool can have
	container     // operations with methods of their own
)

// methodOf returns the HTTP method that a member of a path item describes.
func methodOf(item Place, name, version string) (method string, what use) {
	lower := strings.ToLower(name)
	if lower != name && item.Get(lower) != nil {
		return "", noMethod
	}
	method = strings.ToUpper(name)
	switch lower {
	case "get", "put", "post", "delete", "options", "head", "patch":
		return method, usable
	case "trace":
		return method, unusable
	case "query":
		if isBefore32(version) {
			return "", noMethod
		}
		return method, unusable
	case "additionaloperations":
		if isBefore32(version) {
			return "", noMethod
		}
		return "", container
	}
	return "", noMethod
}

func isBefore32(version string) bool {
	return strings.HasPrefix(version, "2") || strings.HasPrefix(version, "3.0") || strings.HasPrefix(version, "3.1") || version == "3"
}

// lostOperation describes an operation only as far as a warning needs it.
func lostOperation(method, path string, place Place) Operation {
	return Operation{
		Method: method,
		Path:   path,
		ID:     plainText(place.Get("operationId")),
		Err:    fmt.Errorf("an operation with the method %s cannot be a tool", method),
		Place:  place,
	}
}

// A reader reads one operation and gathers what is wrong with it.
type reader struct {
	document *Document
	budget   *budget
	*Operation
}

// operation adds one operation of a path item.
func (l *lister) operation(method, path string, item, place Place) {
	d := l.document
	op := Operation{Method: method, Path: path, BasePath: d.basePath, Security: d.security, Place: place}
	r := &reader{d, &l.budget, &op}
	r.read(item)
	l.all = append(l.all, op)
}

func (r *reader) read(item Place) {
	resolved, err := r.Resolve()
	if err == nil && resolved.Kind() != '{' {
		err = errNoObject(resolved)
	}
	if err != nil {
		r.fail("%w", err)
		return
	}
	r.Place = resolved
	r.describe(item)
	declared := r.declared(item.At("parameters"))
	if r.File.Version == Swagger20 {
		r.swaggerParameters(declared)
		r.swaggerResponses()
	} else {
		r.parameters(declared)
		r.body()
		r.responses()
	}
	if err := r.readPath(); err != nil {
		r.fail("%w", err)
	}
	r.secure()
	r.serve(item)
}

// describe reads what the operation says about itself.
func (r *reader) describe(item Place) {
	r.ID = r.text(r.Get("operationId"))
	r.Summary = r.text(r.Get("summary"))
	r.Description = r.text(r.Get("description"))
	if r.Summary == "" && r.Description == "" {
		r.Summary = r.text(item.Get("summary"))
		r.Description = r.text(item.Get("description"))
	}
	r.Tags = r.texts(r.Get("tags"))
	r.Deprecated = flag(r.Get("deprecated"))
}

// flag returns a boolean that may have been written as text by mistake.
func flag(n *Node) bool {
	return n.True() || strings.EqualFold(n.Text(), "true")
}

// texts returns a list of texts, of one text if it stands alone.
func texts(n *Node) []string {
	if one := plainText(n); one != "" {
		return []string{one}
	}
	var all []string
	for _, item := range n.Items() {
		if one := plainText(item); one != "" {
			all = append(all, one)
		}
	}
	return all
}

func errNoObject(p Place) error {
	return fmt.Errorf("must be an object and is %s", p.Kind())
}

// String names the kind for a message.
func (k Kind) String() string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "text"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "missing"
}
