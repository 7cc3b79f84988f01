package openapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// An Operation is one operation of a document, in the same form for every OpenAPI
// version. If Err is set, the operation cannot be called, and its descriptive fields are
// filled in as far as they could be read.
type Operation struct {
	Method      string // upper case; "" if a path's operations could not be read at all
	Path        string // the key in the Paths Object, "/trips/{id}" or "/trips/{id}#cancel"
	ID          string // operationId, or ""
	Summary     string
	Description string
	Tags        []string
	Deprecated  bool
	BasePath    string // the path of its server, "/api/v1", or ""

	// Template is the path to send requests to. It begins with a slash and has neither
	// query nor fragment. Each "{" and "}" encloses the name of a path parameter.
	Template string

	// ConstantQuery is the query in Path that is sent with every request, without "?"
	// and as the document writes it, or "".
	ConstantQuery string

	Parameters []Parameter // the path's, then its own, which override them
	Body       *Body       // nil if the operation has none
	Responses  []Response

	// Security lists alternative requirements, one of which must be met. Each maps
	// scheme names to scopes. Nil means that the document does not specify security.
	// Empty but not nil means that no security is required.
	Security []map[string][]string

	Warnings []string // what was changed or left out to make the operation usable
	Err      error    // why the operation cannot be used

	Place // the operation object, for its extensions
}

// A Parameter is a path, query, header or cookie parameter.
type Parameter struct {
	Name, In      string // In is "path", "query", "header" or "cookie"
	Description   string
	Required      bool
	Deprecated    bool
	AllowReserved bool
	Style         string // OpenAPI's name, with its default applied; "" if ContentType is set
	Explode       bool   // with its default applied
	ContentType   string // media type that encodes the value; "" if Style does
	Segments      string // of a path parameter: "" for one segment, anySegments, or a pattern such as "shelves/*/books/**"
	Schema        Place  // its Node is nil if the document gives none
	Object        Place  // the parameter object, for its extensions
	Examples      Place  // the parameter or media type object that has its example and examples
}

// anySegments is the Segments of a path parameter with one or more segments.
const anySegments = "**"

// A Body is the request body of an operation.
type Body struct {
	Required    bool
	Description string
	Content     []Media // at least one, in document order
}

// A Response is the response of an operation for one status.
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
	Object   Place // the media type object, for its example and examples; its Node is nil in Swagger 2.0
}

// An Encoding describes how one property of a form is encoded.
type Encoding struct {
	Name          string // name of the property
	ContentType   string // or ""
	Style         string // with its default applied
	Explode       bool   // with its default applied
	AllowReserved bool
	HasStyle      bool // the document sets the style
	HasExplode    bool // the document sets explode
}

// Operations returns all operations in document order, including those that cannot be
// used. Webhooks are not included, since they are not operations of the API. If the
// operations exceed the memory budget, the last one represents the rest and has an Err
// that says so.
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

// A lister collects the operations of a document.
type lister struct {
	document *Document
	budget   budget
	all      []Operation
}

// lose adds an entry for a path whose operations cannot be read.
func (l *lister) lose(path string, place Place, err error) {
	l.all = append(l.all, Operation{Path: path, BasePath: l.document.basePath, Err: err, Place: place})
}

// path adds the operations of one path: those of the path item that its $ref names, if it
// has one, and those beside the $ref.
func (l *lister) path(path string, item Place) {
	target, err := item.Resolve()
	if err == nil && target.Kind() != '{' && target.Kind() != 'n' {
		err = errNoObject(target)
	}
	if err != nil {
		l.lose(path, item, errors.New(text.Cut("path item: "+err.Error(), maxMessage)))
		l.item(path, item, Place{})
		return
	}
	l.item(path, target, Place{})
	if target.Node != item.Node {
		l.item(path, item, target)
	}
}

// item adds the operations of one path item, except those that other has as well.
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

// use classifies a member of a path item.
type use int

const (
	noMethod  use = iota
	usable        // an operation that can become a tool
	unusable      // an operation with an unsupported method
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

// lostOperation returns an operation with only the fields that a warning needs.
func lostOperation(method, path string, place Place) Operation {
	return Operation{
		Method: method,
		Path:   path,
		ID:     plainText(place.Get("operationId")),
		Err:    fmt.Errorf("an operation with the method %s cannot be a tool", method),
		Place:  place,
	}
}

// An operationReader reads one operation.
type operationReader struct {
	*ledger
	*Operation
	document *Document
}

// operation adds one operation of a path item.
func (l *lister) operation(method, path string, item, place Place) {
	d := l.document
	op := Operation{Method: method, Path: path, BasePath: d.basePath, Security: d.security, Place: place}
	r := &operationReader{&ledger{&l.budget, &op}, &op, d}
	r.read(item)
	l.all = append(l.all, op)
}

func (r *operationReader) read(item Place) {
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
	parameters := parameterReader{r.ledger}
	contents := contentReader{r.ledger}
	declared := parameters.declared(item.At("parameters"), r.At("parameters"))
	if r.File.Version == Swagger20 {
		s := swaggerReader{r.ledger, parameters, contents, r.Place, r.document.root}
		r.Parameters, r.Body = s.split(declared)
		r.Responses = s.responses()
	} else {
		r.Parameters = parameters.read(declared)
		r.Body = contents.body(r.At("requestBody"))
		r.Responses = contents.responses(r.At("responses"))
	}
	if err := (&pathParser{ledger: r.ledger, Operation: r.Operation}).read(); err != nil {
		r.fail("%w", err)
	}
	r.secure()
	r.serve(item)
}

// describe reads the descriptive fields of the operation.
func (r *operationReader) describe(item Place) {
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

// texts returns a list of texts. A single text is treated as a list of one.
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

// String returns the name of the kind for use in a message.
func (k Kind) String() string {
	if k == 0 {
		return "missing"
	}
	return strictjson.KindName(jsontext.Kind(k))
}
