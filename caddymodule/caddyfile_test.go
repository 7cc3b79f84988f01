package caddymodule_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestAdapt compares Caddyfiles with their JSON twins: what is above and below
// the line of dashes.
func TestAdapt(t *testing.T) {
	const line = "----------\n"
	files, err := filepath.Glob("../testdata/caddyfile/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			caddyfile, want, _ := strings.Cut(string(content), line)
			got, warnings, err := sitetest.Adapt(caddyfile)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range warnings {
				t.Errorf("warning: %s", w)
			}
			if *update {
				content := strings.TrimRight(caddyfile, "\n") + "\n" + line + got + "\n"
				if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if strings.TrimSpace(got) != strings.TrimSpace(want) {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

// TestAdaptErrors wants every error to say what is wrong and in which line.
func TestAdaptErrors(t *testing.T) {
	inSite := func(directive string) string { return "http://a.test {\n\t" + directive + "\n}" }
	inAgents := func(option string) string { return "{\n\tagents {\n\t\t" + option + "\n\t}\n}" }
	inToolset := func(option string) string {
		return inAgents("toolset trains {\n\t\t\topenapi o.yaml\n\t\t\t" + option + "\n\t\t}")
	}
	for name, test := range map[string]struct {
		caddyfile string
		want      string
		line      string
	}{
		"mcp_server/nothing":              {inAgents("toolset a {\n\t\t\tmcp_server\n\t\t}"), "mcp_server URL command", ":4"},
		"mcp_server/no program":           {inAgents("toolset a {\n\t\t\tmcp_server command\n\t\t}"), "mcp_server program", ":4"},
		"mcp_server/unknown option":       {inAgents("toolset a {\n\t\t\tmcp_server http://a.test/mcp {\n\t\t\t\theadr a b\n\t\t\t}\n\t\t}"), "unrecognized mcp_server headr header", ":5"},
		"mcp_server/twice":                {inAgents("toolset a {\n\t\t\tmcp_server http://a.test/mcp\n\t\t\tmcp_server http://b.test/mcp\n\t\t}"), "mcp_server twice", ":5"},
		"mcp_server/processes":            {inAgents("toolset a {\n\t\t\tmcp_server command a {\n\t\t\t\tuser_processes own\n\t\t\t}\n\t\t}"), "user_processes shared each", ":5"},
		"mcp_servers/option":              {inSite("mcp_servers {\n\t\turl a\n\t}"), "mcp_servers url mcp_server", ":3"},
		"mcp/unknown subdirective":        {inSite("mcp {\n\t\tfrobnicate\n\t}"), "unrecognized mcp frobnicate", ":3"},
		"mcp/events twice":                {inSite("mcp {\n\t\tevents\n\t\tevents\n\t}"), "events twice", ":4"},
		"mcp/events argument":             {inSite("mcp {\n\t\tevents on\n\t}"), "argument", ":3"},
		"mcp/events option":               {inSite("mcp {\n\t\tevents {\n\t\t\tcodes a\n\t\t}\n\t}"), "events codes errors", ":4"},
		"mcp/events errors":               {inSite("mcp {\n\t\tevents {\n\t\t\terrors sep\n\t\t}\n\t}"), "errors sep sketch sep-3415", ":4"},
		"mcp/block not closed":            {inSite("mcp a.yaml {\n\t\tinclude tag a\n\treverse_proxy b:80"), "reverse_proxy directive close", ":4"},
		"mcp/a directive of ours":         {inSite("mcp a.yaml {\n\t\ttools_only\n\t}"), "tools_only directive close", ":3"},
		"mcp/otc's subdirective":          {inSite("mcp {\n\t\ttoolkit x\n\t}"), "unrecognized mcp toolkit", ":3"},
		"mcp/path second":                 {inSite("mcp trains /mcp"), "path first", ":2"},
		"mcp/document as path":            {inSite("mcp /openapi.json /mcp"), "path before", ":2"},
		"mcp/wildcard path":               {inSite("mcp /mcp/* a.yaml"), "path", ":2"},
		"mcp/unknown matcher":             {inSite("mcp @ghost"), "@ghost", ":2"},
		"mcp/duplicate":                   {inSite("mcp {\n\t\tname a\n\t\tname b\n\t}"), "name twice", ":4"},
		"mcp/path twice":                  {inSite("mcp /mcp {\n\t\tpath /other\n\t}"), "path twice", ":3"},
		"mcp/toolset twice":               {inSite("mcp trains {\n\t\ttoolset other\n\t}"), "toolset twice", ":3"},
		"mcp/toolset and openapi":         {inSite("mcp trains {\n\t\topenapi o.yaml\n\t}"), "two documents", ":3"},
		"mcp/openapi and toolset":         {inSite("mcp {\n\t\topenapi o.yaml\n\t\ttoolset trains\n\t}"), "two documents", ":4"},
		"mcp/no argument":                 {inSite("mcp {\n\t\tname\n\t}"), "wrong argument count", ":3"},
		"mcp/extra argument":              {inSite("mcp {\n\t\tname a b\n\t}"), "wrong argument count", ":3"},
		"mcp/empty argument":              {inSite("mcp {\n\t\tname \"\"\n\t}"), "empty", ":3"},
		"mcp/origins without any":         {inSite("mcp {\n\t\torigins\n\t}"), "wrong argument count", ":3"},
		"mcp/page_size":                   {inSite("mcp {\n\t\tpage_size -1\n\t}"), "page_size -1", ":3"},
		"mcp/max_body":                    {inSite("mcp {\n\t\tmax_body lots\n\t}"), "max_body lots", ":3"},
		"mcp/block of subdirective":       {inSite("mcp {\n\t\tname a {\n\t\t}\n\t}"), "unrecognized", ":3"},
		"otc/unknown subdirective":        {inSite("otc {\n\t\torigins a\n\t}"), "unrecognized otc origins", ":3"},
		"otc/duplicate":                   {inSite("otc {\n\t\ttoolkit a\n\t\ttoolkit b\n\t}"), "toolkit twice", ":4"},
		"agents/argument":                 {"{\n\tagents all {\n\t}\n}", "wrong argument count", ":2"},
		"agents/twice":                    {"{\n\tagents {\n\t}\n\tagents {\n\t}\n}", "agents twice", ":4"},
		"agents/unknown":                  {inAgents("tools x"), "unrecognized agents tools", ":3"},
		"agents/toolset unnamed":          {inAgents("toolset"), "toolset name", ":3"},
		"agents/toolset of a document":    {inAgents("toolset ../a.yaml"), "toolset name before ../a.yaml", ":3"},
		"agents/toolset, documents":       {inAgents("toolset a o.yaml p.yaml"), "toolset a takes one document", ":3"},
		"agents/toolset twice":            {inAgents("toolset a o.yaml\n\t\ttoolset a o.yaml"), "toolset a twice", ":4"},
		"agents/toolset empty":            {inAgents("toolset a"), "toolset a document", ":3"},
		"toolset/unknown":                 {inToolset("frobnicate"), "unrecognized toolset frobnicate", ":5"},
		"toolset/openapi twice":           {inToolset("openapi other.yaml"), "openapi twice", ":5"},
		"toolset/argument, openapi":       {inAgents("toolset a o.yaml {\n\t\t\topenapi o.yaml\n\t\t}"), "openapi twice", ":4"},
		"toolset/refresh":                 {inToolset("refresh often"), "refresh often", ":5"},
		"toolset/refresh zero":            {inToolset("refresh 0s"), "refresh 0s", ":5"},
		"toolset/include what":            {inToolset("include bookings"), "as in: include tag bookings", ":5"},
		"toolset/include unknown":         {inToolset("include label bookings"), "selector label", ":5"},
		"toolset/include twice":           {inToolset("include tag a a"), "include tag a twice", ":5"},
		"toolset/schemas":                 {inToolset("schemas some"), "schemas some", ":5"},
		"toolset/base_path":               {inToolset("base_path v2"), "slash", ":5"},
		"toolset/max_schema":              {inToolset("max_schema 0"), "max_schema 0", ":5"},
		"toolset/max_document":            {inToolset("max_document 0"), "max_document 0", ":5"},
		"toolset/max_response":            {inToolset("max_response -5"), "max_response -5", ":5"},
		"toolset/token_budget":            {inToolset("token_budget many"), "token_budget many", ":5"},
		"toolset/timeout twice":           {inToolset("timeout 5s\n\t\t\ttimeout 6s"), "timeout twice", ":6"},
		"toolset/search":                  {inToolset("search maybe"), "search maybe auto on off", ":5"},
		"toolset/search twice":            {inToolset("search on\n\t\t\tsearch off"), "search twice", ":6"},
		"toolset/search misspelled":       {inToolset("serch on"), "serch mean search", ":5"},
		"toolset/pin nothing":             {inToolset("pin"), "wrong argument count", ":5"},
		"toolset/pin twice":               {inToolset("pin a b a"), "a twice", ":5"},
		"toolset/embeddings":              {inToolset("embeddings"), "embeddings URL", ":5"},
		"toolset/embeddings address":      {inToolset("embeddings localhost"), "embeddings URL", ":5"},
		"toolset/embeddings option":       {inToolset("embeddings http://a {\n\t\t\t\tmodell x\n\t\t\t}"), "modell mean model", ":6"},
		"mcp/search":                      {"a {\n\tmcp o.yaml {\n\t\tsearch yes\n\t}\n}", "search yes auto on off", ":3"},
		"otc/search":                      {"a {\n\totc o.yaml {\n\t\tsearch on\n\t}\n}", "search mcp query", ":3"},
		"otc/pin":                         {"a {\n\totc o.yaml {\n\t\tpin a\n\t}\n}", "pin mcp", ":3"},
		"toolset/credential without kind": {inToolset("credential Authorization t0ken"), "credential header Authorization", ":5"},
		"toolset/refs without value":      {inToolset("refs"), "wrong argument count", ":5"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := sitetest.Adapt(test.caddyfile)
			if err == nil {
				t.Fatal("no error")
			}
			if !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %q, want %q and line %s", err, test.want, test.line)
			}
		})
	}
}

// TestOrder adapts a site whose directives are in reverse order.
func TestOrder(t *testing.T) {
	got, _, err := sitetest.Adapt(`http://a.test {
		reverse_proxy legacy:8080
		respond /health ok
		handle /static/* {
			file_server
		}
		templates
		otc trains.yaml
		mcp trains.yaml
		encode gzip
		basic_auth {
			ada x
		}
	}`)
	if err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, handler := range []string{
		"authentication", "encode", "mcp", "otc", "templates", "file_server", "static_response", "reverse_proxy",
	} {
		at := strings.Index(got, `"handler": "`+handler+`"`)
		if at <= last {
			t.Errorf("%s comes before a handler that should precede it:\n%s", handler, got)
		}
		last = at
	}
}
