package tools

import "testing"

// The origin of an API is that of its first server, or of its document.
func TestOrigin_is_that_of_the_first_server(t *testing.T) {
	for document, want := range map[string]string{
		`{"openapi":"3.0.0","servers":[{"url":"http://a.example:81/v1"},{"url":"http://b.example"}],"paths":{}}`:              "http://a.example:81",
		`{"openapi":"3.0.0","servers":[{"url":"/v1"}],"paths":{}}`:                                                            "https://docs.example",
		`{"openapi":"3.0.0","servers":[{"url":"//c.example/v1"}],"paths":{}}`:                                                 "https://c.example",
		`{"openapi":"3.0.0","servers":[{"url":"ftp://c.example"}],"paths":{}}`:                                                "",
		`{"openapi":"3.0.0","servers":[{"url":"https://{x}","variables":{"x":{"default":"{x}{x}{x}{x}{x}{x}"}}}],"paths":{}}`: "",
		`{"openapi":"3.0.0","servers":[{"url":"https://{host}/","variables":{"host":{"default":"d.example"}}}],"paths":{}}`:   "https://d.example",
		`{"openapi":"3.0.0","paths":{}}`:                                             "https://docs.example",
		`{"swagger":"2.0","host":"e.example","schemes":["http","https"],"paths":{}}`: "http://e.example",
		`{"swagger":"2.0","host":"e.example:8080","paths":{}}`:                       "https://e.example:8080",
		`{"swagger":"2.0","paths":{}}`:                                               "https://docs.example",
	} {
		if got := buildTools(t, document, BuildOptions{Location: "https://docs.example/openapi.json"}).Origin; got != want {
			t.Errorf("%s: got %q, want %q", document, got, want)
		}
	}
	if got := buildTools(t, `{"openapi":"3.0.0","servers":[{"url":"/v1"}],"paths":{}}`, BuildOptions{Location: "api.json"}).Origin; got != "" {
		t.Errorf("a file is at %q", got)
	}
}
