package openapi

// A SecurityScheme is one way to authenticate with the API.
type SecurityScheme struct {
	Name          string // the name that operations refer to
	Type          string // "apiKey", "http", "oauth2", "openIdConnect" or "mutualTLS"
	Description   string
	ParameterName string // for apiKey: name of the header, query parameter or cookie
	In            string // for apiKey: "header", "query" or "cookie"
	Scheme        string // for http: "basic", "bearer", …

	Place // the scheme object, for its other members
}

// SecuritySchemes returns the readable schemes in document order.
func (d *Document) SecuritySchemes() []SecurityScheme {
	schemes := d.root.At("components").At("securitySchemes")
	if d.root.File.Version == Swagger20 {
		schemes = d.root.At("securityDefinitions")
	}
	var all []SecurityScheme
	for _, m := range schemes.Members() {
		place, err := Place{m.Value, schemes.File}.Resolve()
		if err != nil || place.Kind() != '{' {
			continue
		}
		scheme := SecurityScheme{
			Name:          m.Name,
			Type:          place.Get("type").Text(),
			Description:   plainText(place.Get("description")),
			ParameterName: plainText(place.Get("name")),
			In:            place.Get("in").Text(),
			Scheme:        place.Get("scheme").Text(),
			Place:         place,
		}
		if scheme.Type == "basic" { // Swagger 2.0
			scheme.Type, scheme.Scheme = "http", "basic"
		}
		all = append(all, scheme)
	}
	return all
}

// secure reads the operation's own security requirements, if it has any.
func (r *operationReader) secure() {
	own := r.Get("security")
	if own.Kind() == 0 || own.Kind() == 'n' {
		return
	}
	cost := partCost * (len(own.Items()) + len(own.Members()))
	for _, item := range own.Items() {
		cost += partCost * len(item.Members())
	}
	if !r.take(cost) {
		return
	}
	alternatives, ok := requirements(own)
	if !ok {
		r.warn("security must be a list of objects and is not: the document's is used")
		return
	}
	r.Security = alternatives
}

// requirements reads a list of alternative requirements. It returns false if the value is
// not such a list.
func requirements(list *Node) ([]map[string][]string, bool) {
	alternatives := []map[string][]string{}
	switch list.Kind() {
	case '{':
		return append(alternatives, requirement(list)), true
	case '[':
	default:
		return nil, false
	}
	for _, item := range list.Items() {
		if item.Kind() != '{' {
			return nil, false
		}
		alternatives = append(alternatives, requirement(item))
	}
	return alternatives, true
}

func requirement(n *Node) map[string][]string {
	schemes := make(map[string][]string, len(n.Members()))
	for _, m := range n.Members() {
		schemes[m.Name] = texts(m.Value)
	}
	return schemes
}
