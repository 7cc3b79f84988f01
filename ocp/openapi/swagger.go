package openapi

import "strings"

// modernise brings the schemas of a Swagger 2.0 file to the form that OpenAPI
// 3.0 has for the same: x-nullable, a discriminator that is a bare name, and
// the type file. It changes the tree, which nobody else may have seen yet.
// Names says that the members are named by the author, not by Swagger.
func modernise(n *Node, names bool) {
	if !names && n.Get("type").Text() == "file" {
		n.branch.set("type", text("string"))
		n.branch.set("format", text("binary"))
	}
	for _, m := range n.Members() {
		switch {
		case names:
			modernise(m.Value, false)
		case m.Name == "x-nullable":
			n.branch.set("nullable", m.Value)
		case m.Name == "discriminator" && m.Value.Kind() == '"':
			n.branch.set("discriminator", object([]Member{{"propertyName", m.Value}}))
		case isLiteral(m.Name):
		default:
			modernise(m.Value, m.Value.Kind() == '{' && namesByAuthor(m.Name))
		}
	}
	for _, item := range n.Items() {
		modernise(item, false)
	}
}

// isLiteral reports whether a member holds a value of the API's own, in which
// nothing is a keyword.
func isLiteral(name string) bool {
	switch name {
	case "example", "examples", "default", "enum":
		return true
	}
	return strings.HasPrefix(name, "x-")
}

// namesByAuthor reports whether the members of a member are named by the author.
func namesByAuthor(name string) bool {
	switch name {
	case "properties", "patternProperties", "definitions", "parameters", "responses", "paths", "headers", "securityDefinitions":
		return true
	}
	return false
}
