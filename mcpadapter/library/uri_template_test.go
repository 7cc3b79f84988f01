package library

import (
	"fmt"
	"strings"
	"testing"
)

func TestTemplate_takes_URIs_apart(t *testing.T) {
	for _, c := range []struct{ template, uri, want string }{
		{"a://b", "a://b", "[]"},
		{"a://b", "a://bc", ""},
		{"a://b/{id}", "a://b/7", "[{id 7}]"},
		{"a://b/{id}", "a://b/", ""},
		{"a://b/{id}", "a://b/7/8", ""},
		{"a://b/{id}", "a://b/7%2F8", "[{id 7/8}]"},
		{"a://b/{id}", "a://b/7?x=1", ""},
		{"a://b/{id}", "a://b/%C3%BC", "[{id ü}]"},
		{"a://b/{id}", "a://b/ü", "[{id ü}]"},
		{"a://b/{id}", "a://b/%ff", ""},
		{"a://b/{id}", "a://b/%00", ""},
		{"a://b/{id}", "a://b/%7", ""},
		{"a://b/{id}/data", "a://b/123/data", "[{id 123}]"},
		{"a://b/{x}-{y}", "a://b/1-2-3", "[{x 1} {y 2-3}]"},
		{"a://b.c/{id}", "a://bxc/7", ""},
		{"a://b/{+path}", "a://b/c/d", "[{path c/d}]"},
		{"a://b/{+path}", "a://b/c?d", ""},
		{"a://b{?x,y}", "a://b", "[]"},
		{"a://b{?x,y}", "a://b?y=2&x=1", "[{y 2} {x 1}]"},
		{"a://b{?x,y}", "a://b?x=1&x=2", ""},
		{"a://b{?x,y}", "a://b?z=1", ""},
		{"a://b{?x}", "a://b?x=a%26b", "[{x a&b}]"},
		{"a://b/{id}{?x}", "a://b/7?x=1", "[{id 7} {x 1}]"},
		{"a://b?fixed=1", "a://b?fixed=1", "[]"},
		{"a:b:{id}", "a:b:7", "[{id 7}]"},
	} {
		t.Run(c.template+" "+c.uri, func(t *testing.T) {
			template, err := parseTemplate(c.template)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := template.match(c.uri)
			if text := fmt.Sprint(got); ok != (c.want != "") || ok && text != c.want {
				t.Errorf("got %s, %v; want %q", text, ok, c.want)
			}
		})
	}
}

func TestTemplates_that_are_refused(t *testing.T) {
	for _, template := range []string{
		"", "b", "/a/{id}", "{scheme}://a", ":a", "1a://b", "a:", "a:{x}",
		"a://{x}{y}", "a://{x}/{x}", "a://{}", "a://{x", "a://x}", "a://{x,y}", "a://{x-y}", "a://{#x}", "a://{x*}", "a://{x:3}",
		"a://b{?x}/c", "a://b{?x}{?y}", "a://b?c{?x}", "a://b{?}", "a://b{&x}", "a://b c", "a://b\n", "a://bü", "a://" + strings.Repeat("a", maxTemplate),
		"a://b" + strings.Repeat("/{x}", 2),
	} {
		if got, err := parseTemplate(template); err == nil {
			t.Errorf("%q is taken as %+v", template, got)
		}
	}
}

func TestMany_variables_are_refused(t *testing.T) {
	var b strings.Builder
	for i := range maxVariables + 1 {
		fmt.Fprintf(&b, "/{x%d}", i)
	}
	if _, err := parseTemplate("a:/" + b.String()); err == nil {
		t.Error("no error")
	}
}

// FuzzTemplate wants every value to come back from the URI that it was put into.
func FuzzTemplate(f *testing.F) {
	f.Add("a://b/{id}", "7", "a://b/7")
	f.Add("a://{x}/c{?y,z}", "ü/&", "a://?y")
	f.Add("a://{+x}.c", "a/b", "a://..c")
	f.Add("a:b{x}{?y}", "\x00", "")
	f.Fuzz(func(t *testing.T, text, value, uri string) {
		template, err := parseTemplate(text)
		if err != nil {
			return
		}
		if bindings, ok := template.match(uri); ok && len(bindings) < len(template.variables) {
			t.Fatalf("%s matches %s as %v", text, uri, bindings)
		}
		if len(template.variables) != 1 || value == "" {
			return
		}
		expanded, _, _ := strings.Cut(text, "{?")
		name := template.variables[0]
		expanded = strings.NewReplacer("{"+name+"}", escapeValue(value), "{+"+name+"}", escapeValue(value)).Replace(expanded)
		bindings, ok := template.match(expanded)
		if plain, isText := unescape(escapeValue(value)); ok != (isText && len(expanded) <= MaxURI) || ok && bindings[0].value != plain {
			t.Fatalf("%s with %q is %s, which is %v, %v", text, value, expanded, bindings, ok)
		}
	})
}
