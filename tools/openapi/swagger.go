package openapi

import "strings"

// modernise converts the schemas of a Swagger 2.0 file to the OpenAPI 3.0 form: x-nullable, a
// discriminator that is a plain name, and the type file. It changes the tree, which must not
// be shared yet. Names means that the member names were chosen by the author and are not
// Swagger keywords.
func modernise(n *Node, names bool) {
	if !names && n.Get("type").Text() == "file" {
		n.branch.set("type", Text("string"))
		n.branch.set("format", Text("binary"))
	}
	for _, m := range n.Members() {
		switch {
		case names:
			modernise(m.Value, false)
		case m.Name == "x-nullable":
			n.branch.set("nullable", m.Value)
		case m.Name == "discriminator" && m.Value.Kind() == '"':
			n.branch.set("discriminator", object([]Member{{"propertyName", m.Value}}))
		case IsLiteral(m.Name):
		default:
			modernise(m.Value, m.Value.Kind() == '{' && NamesByAuthor(m.Name))
		}
	}
	for _, item := range n.Items() {
		modernise(item, false)
	}
}

// IsLiteral reports whether the named member holds a literal value, such as an example, which
// contains no keywords.
func IsLiteral(name string) bool {
	switch name {
	case "example", "examples", "default", "enum":
		return true
	}
	return strings.HasPrefix(name, "x-")
}

// NamesByAuthor reports whether the members of the named member have names chosen by the
// author.
func NamesByAuthor(name string) bool {
	switch name {
	case "properties", "patternProperties", "definitions", "parameters", "responses", "paths", "headers", "securityDefinitions":
		return true
	}
	return false
}
