package ocp_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/ocp"
)

// TestOCP_adapt_errors wants every error to say what is wrong and in which line.
func TestOCP_adapt_errors(t *testing.T) {
	block := func(lines string) string { return "ocp {\n\t\t" + lines + "\n\t}" }
	for name, test := range map[string]struct {
		directive string
		want      string
		line      string
	}{
		"unknown":                 {block("frobnicate"), "unrecognized ocp frobnicate", ":3"},
		"argument":                {"ocp trains", "ocp matcher trains", ":2"},
		"path is of endpoints":    {block("path /x"), "unrecognized ocp path", ":3"},
		"timeout is of endpoints": {block("timeout 5s"), "unrecognized ocp timeout", ":3"},
		"toolset twice":           {block("toolset a\n\t\ttoolset b"), "toolset twice", ":4"},
		"toolset and openapi":     {block("toolset a\n\t\topenapi b.yaml"), "two documents", ":4"},
		"toolset without name":    {block("toolset"), "wrong argument count", ":3"},
		"refresh":                 {block("refresh often"), "refresh often", ":3"},
		"enhance without all":     {block("enhance x"), "enhance property expression", ":3"},
		"enhance unquoted":        {block("enhance x 1 + 1 + 1"), "enhance property expression", ":3"},
		"enhance with more":       {block("enhance x 1 everywhere"), "everywhere declared", ":3"},
		"enhance twice":           {block("enhance x 1\n\t\tenhance x 2"), "enhance x twice", ":4"},
		"enhance bad name":        {block("enhance x-y 1"), `property "x-y"`, ":3"},
		"enhance bad expression":  {block("enhance x \"1 +\""), "property x", ":3"},
		"enhance unknown name":    {block("enhance x context.user"), "undeclared reference", ":3"},
		"lists":                   {block("lists some"), "each", ":3"},
		"lists none":              {block("lists"), "wrong argument count", ":3"},
		"lists each with more":    {block("lists each x"), "wrong argument count", ":3"},
		"lists wrap bad name":     {block("lists wrap a-b"), `wrap "a-b"`, ":3"},
		"lists twice":             {block("lists each\n\t\tlists each"), "lists twice", ":4"},
		"enhance_errors argument": {block("enhance_errors yes"), "wrong argument count", ":3"},
		"max_enhanced":            {block("max_enhanced some"), "max_enhanced some", ":3"},
		"forward":                 {block("forward all"), "forward all headers strip json", ":3"},
		"forward twice":           {block("forward strip\n\t\tforward json"), "forward twice", ":4"},
		"reply":                   {block("reply maybe"), "reply maybe on off", ":3"},
		"log nothing":             {block("log"), "wrong argument count", ":3"},
		"log unknown":             {block("log goal"), "log goal field context_id", ":3"},
		"log all of the session":  {block("log session."), "field", ":3"},
		"log twice":               {block("log user user"), "user twice", ":3"},
		"strict argument":         {block("strict on"), "wrong argument count", ":3"},
		"strict twice":            {block("strict\n\t\tstrict"), "strict twice", ":4"},
		"require argument":        {block("require all"), "wrong argument count", ":3"},
		"discovery":               {block("discovery openapi.json"), "wildcards", ":3"},
		"discovery wildcard":      {block("discovery /docs/*"), "wildcards", ":3"},
		"matcher empty":           {"@x ocp", "ocp matcher", ":2"},
		"matcher unknown field":   {"@x ocp goal a", "field goal", ":2"},
		"matcher no pattern":      {"@x ocp valid agent_type", "agent_type pattern", ":2"},
		"matcher block":           {"@x ocp valid {\n\t\tfoo\n\t}", "blocks", ":3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := sitetest.Adapt("http://a.test {\n\t" + test.directive + "\n\trespond @x ok\n}")
			if strings.HasPrefix(test.directive, "ocp") {
				_, _, err = sitetest.Adapt("http://a.test {\n\t" + test.directive + "\n}")
			}
			if err == nil {
				t.Fatal("no error")
			}
			if !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %q, want %q and line %s", err, test.want, test.line)
			}
		})
	}
}

// TestOCP_provision_errors wants what only a running configuration can know to be
// reported when it is loaded.
func TestOCP_provision_errors(t *testing.T) {
	for name, test := range map[string]struct{ block, want string }{
		"unknown toolset":           {"ocp {\ntoolset buses\n}", "toolset buses"},
		"require without toolset":   {"ocp {\nrequire\n}", "require toolset"},
		"declared without toolset":  {"ocp {\nenhance x 1 declared\n}", "toolset"},
		"discovery without toolset": {"ocp {\ndiscovery /openapi.json\n}", "discovery toolset"},
		"CEL/unknown field":         {"@x expression ocp({'goal': 'a'})\nrespond @x ok", "field goal"},
		"CEL/nothing":               {"@x expression ocp({})\nrespond @x ok", "empty"},
		"CEL/valid false":           {"@x expression ocp({'valid': 'false'})\nrespond @x ok", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			err := s.Load("", test.block)
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestOCPMatcher asks a site whose every matcher answers with its name.
func TestOCPMatcher(t *testing.T) {
	a := sitetest.NewAPI(t, nil)
	const matchers = `
	@valid ocp valid
	@ide ocp agent_type ide_*
	@both ocp agent_type ide_* agent_type cli_*
	@user ocp user a*a workspace * valid
	@file ocp session.current_file *.go
	@cel expression ocp({'agent_type': ['ide_*', 'cli_*'], 'valid': 'true'}) && {http.ocp.user} != 'eve'
	`
	before := matchers + `
	header @valid +X-Before valid
	header @ide +X-Before ide
	header @both +X-Before both
	header @user +X-Before user
	header @file +X-Before file
	header @cel +X-Before cel
	`
	// The matchers behind the handler know what it has taken away.
	s := ocpSite(t, a, before+`
	route {
		ocp {
			forward strip
			reply off
		}
		header @valid +X-Behind valid
		header @ide +X-Behind ide
		header @both +X-Behind both
		header @user +X-Behind user
		header @file +X-Behind file
		header @cel +X-Behind cel
		reverse_proxy API
	}`)
	file := session(t, func(c *ocp.Context) { c.CurrentFile = "a.go" })
	for rule, c := range map[string]struct {
		headers []string
		want    string
	}{
		"no headers":         {nil, ""},
		"valid":              {[]string{"OCP-Context-ID", "c", "OCP-Agent-Type", "bot"}, "valid"},
		"field alone":        {[]string{"OCP-Agent-Type", "ide_x"}, "ide both"},
		"case counts":        {[]string{"OCP-Agent-Type", "IDE_x"}, ""},
		"one of several":     {[]string{"OCP-Context-ID", "c", "OCP-Agent-Type", "cli_x"}, "valid both cel"},
		"ignored is absent":  {[]string{"OCP-Context-ID", "c", "OCP-Agent-Type", "ide_ x"}, ""},
		"all fields":         {[]string{"OCP-Context-ID", "c", "OCP-Agent-Type", "bot", "OCP-User", "anna", "OCP-Workspace", "w"}, "valid user"},
		"all fields but one": {[]string{"OCP-Context-ID", "c", "OCP-Agent-Type", "bot", "OCP-User", "anna"}, "valid"},
		"pattern as a whole": {[]string{"OCP-Context-ID", "c", "OCP-Agent-Type", "bot", "OCP-User", "a", "OCP-Workspace", "w"}, "valid"},
		"session":            {[]string{"OCP-Session", file}, "file"},
		"placeholder":        {[]string{"OCP-Context-ID", "c", "OCP-Agent-Type", "cli_x", "OCP-User", "eve"}, "valid both"},
	} {
		t.Run(rule, func(t *testing.T) {
			r := agent(s, "GET", "/")
			r.Header = map[string][]string{}
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Set(c.headers[i], c.headers[i+1])
			}
			got := s.With(t).Do(r)
			if behind := strings.Join(got.Header["X-Behind"], " "); behind != c.want {
				t.Errorf("behind the handler: got %q, want %q", behind, c.want)
			}
			if rule == "placeholder" {
				return // placeholders are known behind the handler only
			}
			if before := strings.Join(got.Header["X-Before"], " "); before != c.want {
				t.Errorf("before the handler: got %q, want %q", before, c.want)
			}
		})
	}
}
