package mcpdiscovery

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/caddymodule/mcp"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/tools"
)

func TestCardNames(t *testing.T) {
	for _, test := range []struct{ at, name, want, identifier string }{
		{"https://api.example.com/mcp", "trains", "com.example.api/trains", "urn:air:api.example.com:mcp:trains"},
		{"https://api.example.com:8443/mcp", "Train Travel.yaml", "com.example.api/Train-Travel", "urn:air:api.example.com:mcp:Train-Travel"},
		{"http://[::1]:8080/mcp", "x", "--1/x", "urn:air:--1:mcp:x"},
		{"http://127.0.0.1/mcp", "日本", "127.0.0.1/mcp", "urn:air:127.0.0.1:mcp:mcp"},
		{"http://localhost/mcp", "org.example/trains", "org.example/trains", "urn:air:example.org:mcp:trains"},
	} {
		m := &mcp.Handler{Options: mcpadapter.Options{Name: test.name}}
		card := Card(m, new(Discovery), test.at, tools.NewToolset("toolset", nil))
		if card.Name != test.want || card.identifier() != test.identifier || checkCardName(card.Name) != nil {
			t.Errorf("%s at %s: %s, %s", test.name, test.at, card.Name, card.identifier())
		}
		if card.Description == "" || card.Version != "0" {
			t.Errorf("%+v", card)
		}
	}
}

// TestDiscovery_Check wants errors to name the option.
func TestDiscovery_Check(t *testing.T) {
	for _, test := range []struct {
		options Discovery
		want    string
	}{
		{Discovery{Name: "a"}, `discovery: name "a"`},
		{Discovery{URL: "ftp://a/mcp"}, `discovery: url "ftp://a/mcp"`},
		{Discovery{Name: "com.example/trains", URL: "https://a/mcp"}, ""},
	} {
		if err := test.options.Check(); !strings.Contains(fmt.Sprint(err), cmp.Or(test.want, "<nil>")) {
			t.Errorf("%+v: got %v, want %q", test.options, err, test.want)
		}
	}
}

func TestCardText(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"  Trains \n and  buses.\n\nMore of it.", "Trains and buses."},
		{strings.Repeat("x", 100), strings.Repeat("x", 100)},
		{strings.Repeat("ü", 101), strings.Repeat("ü", 99) + "…"},
		{strings.Repeat("word ", 30), strings.TrimSpace(strings.Repeat("word ", 19)) + "…"},
	} {
		got := CardText(test.text, MaxCardText)
		if got != test.want || len([]rune(got)) > MaxCardText {
			t.Errorf("%q became %q, want %q", test.text, got, test.want)
		}
	}
}
