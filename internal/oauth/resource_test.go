package oauth

import (
	"slices"
	"testing"
)

func TestNormalResource_has_one_form(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.test": "https://a.test", "HTTPS://A.Test/": "https://a.test", "https://a.test:443/Mcp/": "https://a.test/Mcp", "http://a.test:80": "http://a.test",
		"http://a.test:443/x": "http://a.test:443/x", "https://a.test/x?": "", "https://a.test#": "", "https://u@a.test": "", "/mcp": "", "ftp://a.test": "",
	} {
		if got, err := NormalResource(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestResources_audiences_are_the_nearest(t *testing.T) {
	const origin = "https://a.test"
	whole := Resource{URL: origin, Audience: origin, Parts: []string{origin + "/mcp", origin + "/mcp/more"}}
	api := Resource{URL: origin + "/api", Audience: "urn:api"}
	for name, test := range map[string]struct {
		all   Resources
		named string
		want  []string
	}{
		"all":             {Resources{whole, api}, origin, []string{origin, "urn:api"}},
		"a part":          {Resources{whole}, origin + "/mcp", []string{origin + "/mcp"}},
		"below a part":    {Resources{whole}, origin + "/mcp/x", []string{origin + "/mcp"}},
		"the longer part": {Resources{whole}, origin + "/mcp/more/x", []string{origin + "/mcp/more"}},
		"not a part":      {Resources{whole}, origin + "/mcpx", []string{origin}},
		"inside":          {Resources{whole, api}, origin + "/api/x", []string{"urn:api"}},
		"outside":         {Resources{api}, origin + "/other", nil},
		"another origin":  {Resources{whole, api}, "https://a.test.evil.test/mcp", nil},
	} {
		if got := test.all.Audiences(test.named, origin); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
