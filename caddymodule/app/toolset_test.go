package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/loader"
)

func TestLocate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "openapi.yaml")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		address string
		kind    sourceKind
		where   string
	}{
		"relative file":        {"a/b.yaml", SourceFile, filepath.Join(here, "a", "b.yaml")},
		"file that exists":     {file, SourceFile, file},
		"file URL":             {"file://" + dir + "/x/../o.yaml", SourceFile, filepath.Join(dir, "o.yaml")},
		"path on the site":     {"/no/such/file/openapi.json", SourceSite, "/no/such/file/openapi.json"},
		"directory by name":    {dir, SourceSite, dir},
		"http":                 {"http://a.test/o.json", sourceURL, "http://a.test/o.json"},
		"https in upper case":  {"HTTPS://a.test/o.json", sourceURL, "HTTPS://a.test/o.json"},
		"another scheme":       {"ftp://a.test/o.json", "", ""},
		"file URL with a host": {"file://other/o.yaml", "", ""},
		"nothing":              {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			kind, where, err := resolveAddress(test.address)
			if kind != test.kind || where != test.where || (err != nil) != (test.kind == "") {
				t.Errorf("got %q %q %v", kind, where, err)
			}
		})
	}
}

func TestKey(t *testing.T) {
	key := func(c ToolsetConfig) string {
		t.Helper()
		k, err := c.Key("")
		if err != nil {
			t.Fatal(err)
		}
		return k.String()
	}
	budget := 0
	base := ToolsetConfig{OpenAPI: "https://a.test/o.json"}
	for name, c := range map[string]ToolsetConfig{
		"defaults written out": {OpenAPI: base.OpenAPI, Refresh: caddy.Duration(loader.DefaultRefresh), BuildOptions: tools.BuildOptions{Schemas: "auto"}, TokenBudget: &budget},
		"limits of calls":      {OpenAPI: base.OpenAPI, Timeout: caddy.Duration(time.Second), MaxResponse: 5},
	} {
		if key(c) != key(base) {
			t.Errorf("%s: another document", name)
		}
	}
	for name, c := range map[string]ToolsetConfig{
		"query":   {OpenAPI: base.OpenAPI + "?v=2"},
		"include": {OpenAPI: base.OpenAPI, BuildOptions: tools.BuildOptions{Include: []build.Selector{{By: "tag", Value: "a"}}}},
		"refresh": {OpenAPI: base.OpenAPI, Refresh: -1},
	} {
		if key(c) == key(base) {
			t.Errorf("%s: the same document", name)
		}
	}
	k, err := (&ToolsetConfig{OpenAPI: "https://user:password@a.test/o.json?key=secret#x"}).Key("")
	if err != nil || k.Name != "https://a.test/o.json" {
		t.Errorf("name %q, %v", k.Name, err)
	}
}

// TestShownName: the path of a document is not shown to clients.
func TestShownName(t *testing.T) {
	for name, want := range map[string]string{
		"trains":                              "trains",
		"http://10.0.0.7:8080/v1/trains.json": "trains.json",
		"http://10.0.0.7:8080":                "openapi",
		"http://10.0.0.7:8080/":               "openapi",
		"/srv/private/trains.yaml":            "trains.yaml",
		"../trains.yaml":                      "trains.yaml",
	} {
		k := DocumentKey{Name: name}
		if got := k.OptionsOf("").Name; got != want {
			t.Errorf("%s: clients see %q, want %q", name, got, want)
		}
	}
}

func TestKeyErrors(t *testing.T) {
	negative := -1
	for want, c := range map[string]ToolsetConfig{
		"no OpenAPI document":     {},
		"max_schema 100":          {OpenAPI: "o.yaml", BuildOptions: tools.BuildOptions{MaxSchema: 100}},
		"max_schema 5000000":      {OpenAPI: "o.yaml", BuildOptions: tools.BuildOptions{MaxSchema: 5_000_000}},
		"max_document -1":         {OpenAPI: "o.yaml", BuildOptions: tools.BuildOptions{MaxDocument: -1}},
		"token_budget -1":         {OpenAPI: "o.yaml", TokenBudget: &negative},
		"base_path \"v2\"":        {OpenAPI: "o.yaml", BuildOptions: tools.BuildOptions{BasePath: "v2"}},
		"refs requires":           {OpenAPI: "https://a.test/o", BuildOptions: tools.BuildOptions{Refs: "dir"}},
		"unknown selector \"x\"":  {OpenAPI: "o.yaml", BuildOptions: tools.BuildOptions{Exclude: []build.Selector{{By: "x", Value: "y"}}}},
		"selector \"tag\" needs":  {OpenAPI: "o.yaml", BuildOptions: tools.BuildOptions{Include: []build.Selector{{By: "tag"}}}},
		"https://a.test/o.json":   {OpenAPI: "ftp://a.test/o.json"},
		"schemas":                 {OpenAPI: "o.yaml", BuildOptions: tools.BuildOptions{Schemas: "some"}},
		"file:///path/to/openapi": {OpenAPI: "file://"},
	} {
		if _, err := c.Key("x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
