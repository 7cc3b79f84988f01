package tools

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/security"
)

// part returns a Toolset whose tools have these names.
func part(name string, names ...string) *Toolset {
	tools := make([]*Tool, len(names))
	for i, n := range names {
		tools[i] = &Tool{Name: n, Plan: Plan{Method: "GET", Path: "/" + name + "/" + n}}
	}
	s := NewToolset(name, tools)
	s.Hash = name + strings.Join(names, ",")
	return s
}

// server returns a Toolset of an MCP server whose tools have these names.
func server(name string, names ...string) *Toolset {
	s := part(name, names...)
	s.Foreign = true
	for _, t := range s.tools {
		t.Foreign = &Foreign{Kind: ForeignTool, Name: t.Name}
	}
	return s
}

func newMerger(t *testing.T, prefixes ...string) *Merger {
	t.Helper()
	m, err := NewMerger(MergeOptions{Prefixes: prefixes})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// namesOf returns each tool's name and path.
func namesOf(s *Toolset) map[string]string {
	names := make(map[string]string)
	for _, t := range s.Tools() {
		names[t.Name] = t.Plan.Path
	}
	return names
}

func TestMerge_names(t *testing.T) {
	long := strings.Repeat("x", build.MaxName)
	for rule, c := range map[string]struct {
		prefixes []string
		steps    [][]*Toolset
		want     map[string]string
		moved    []string
	}{
		"unique names stay": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "book"), part("b", "ride")}},
			map[string]string{"book": "/t/book", "ride": "/b/ride"},
			nil,
		},
		"the first document keeps the name": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "list", "book"), part("b", "list")}},
			map[string]string{"list": "/t/list", "book": "/t/book", "buses_list": "/b/list"},
			nil,
		},
		"a document keeps the name before an MCP server": {
			[]string{"files", "buses"},
			[][]*Toolset{{server("f", "list"), part("b", "list")}},
			map[string]string{"files_list": "/f/list", "list": "/b/list"},
			nil,
		},
		"the first MCP server keeps the name": {
			[]string{"files", "mail"},
			[][]*Toolset{{server("f", "list"), server("m", "list")}},
			map[string]string{"list": "/f/list", "mail_list": "/m/list"},
			nil,
		},
		"a part that is not loaded": {
			[]string{"trains", "buses"},
			[][]*Toolset{{nil, part("b", "list")}},
			map[string]string{"list": "/b/list"},
			nil,
		},
		"a later source does not take a name": {
			[]string{"trains", "files", "mail"},
			[][]*Toolset{{part("t", "list"), server("f", "read"), server("m")}, {part("t", "list"), server("f", "read", "list"), server("m", "list", "read")}},
			map[string]string{"list": "/t/list", "read": "/f/read", "files_list": "/f/list", "mail_list": "/m/list", "mail_read": "/m/read"},
			nil,
		},
		"a name that an earlier source would take is of none": {
			[]string{"files", "mail"},
			[][]*Toolset{{server("f"), server("m", "list")}, {server("f", "list"), server("m", "list")}},
			map[string]string{"files_list": "/f/list", "mail_list": "/m/list"},
			[]string{"list"},
		},
		"a document that is loaded later has its names": {
			[]string{"files", "buses"},
			[][]*Toolset{{server("f", "list"), nil}, {server("f", "list"), part("b", "list")}},
			map[string]string{"files_list": "/f/list", "list": "/b/list"},
			nil,
		},
		"so has an MCP server that is first": {
			[]string{"files", "mail"},
			[][]*Toolset{{nil, server("m", "list")}, {server("f", "list"), server("m", "list")}},
			map[string]string{"list": "/f/list", "mail_list": "/m/list"},
			nil,
		},
		"but not one that is later": {
			[]string{"files", "mail"},
			[][]*Toolset{{server("f", "list"), nil}, {server("f"), nil}, {server("f"), server("m", "list")}},
			map[string]string{"mail_list": "/m/list"},
			[]string{"list"},
		},
		"a name that a document would take is of none": {
			[]string{"files", "buses"},
			[][]*Toolset{{server("f", "list"), part("b")}, {server("f", "list"), part("b", "list")}},
			map[string]string{"files_list": "/f/list", "buses_list": "/b/list"},
			[]string{"list"},
		},
		"such a name stays of none": {
			[]string{"files", "buses"},
			[][]*Toolset{{server("f", "list"), part("b")}, {server("f", "list"), part("b", "list")}, {server("f"), part("b", "list")}, {server("f", "list"), part("b")}},
			map[string]string{"files_list": "/f/list"},
			[]string{"list"},
		},
		"a name stays with its source": {
			[]string{"trains", "files"},
			[][]*Toolset{{part("t", "list"), server("f", "list")}, {part("t", "book"), server("f", "list")}, {part("t", "book"), server("f", "list", "read")}},
			map[string]string{"book": "/t/book", "files_list": "/f/list", "read": "/f/read"},
			[]string{"list"},
		},
		"a name comes back to its source": {
			[]string{"trains", "files"},
			[][]*Toolset{{part("t", "list"), server("f")}, {part("t"), server("f", "list")}, {part("t", "list"), server("f")}},
			map[string]string{"list": "/t/list"},
			[]string{"list"},
		},
		"a prefixed name is not given to another tool": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "list"), part("b", "list")}, {part("t", "buses_list"), part("b")}},
			map[string]string{"trains_buses_list": "/t/buses_list"},
			nil,
		},
		"a prefixed name that a document has": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "list", "buses_list"), part("b", "list")}},
			map[string]string{nameKey{"buses", "list"}.unique(): "/b/list", "list": "/t/list", "buses_list": "/t/buses_list"},
			nil,
		},
		"a prefixed name of a document that an MCP server has": {
			[]string{"files", "trains", "buses"},
			[][]*Toolset{{server("f", "buses_list"), part("t", "list"), part("b", "list")}},
			map[string]string{"files_buses_list": "/f/buses_list", "list": "/t/list", "buses_list": "/b/list"},
			nil,
		},
		"a prefixed name that a built-in tool has": {
			[]string{"trains", "next"},
			[][]*Toolset{{part("t", "page"), server("n", "page")}},
			map[string]string{"page": "/t/page", nameKey{"next", "page"}.unique(): "/n/page"},
			nil,
		},
		"prefixed names that are equal": {
			[]string{"z", "a", "a_b"},
			[][]*Toolset{{part("1", "b_c", "c"), part("2", "b_c"), part("3", "c")}},
			map[string]string{"b_c": "/1/b_c", "c": "/1/c", "a_b_c": "/2/b_c", nameKey{"a_b", "c"}.unique(): "/3/c"},
			nil,
		},
		"long names": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", long), part("b", long)}},
			map[string]string{long: "/t/" + long, build.ShortenName("buses_" + long): "/b/" + long},
			nil,
		},
	} {
		t.Run(rule, func(t *testing.T) {
			var moved []string
			m, err := NewMerger(MergeOptions{Prefixes: c.prefixes, Moved: func(names []string) { moved = append(moved, names...) }})
			if err != nil {
				t.Fatal(err)
			}
			var s *Toolset
			for _, parts := range c.steps {
				s = m.Merge(parts...)
			}
			if got := namesOf(s); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			if !slices.Equal(moved, c.moved) {
				t.Errorf("reported names %q, want %q", moved, c.moved)
			}
			for _, merged := range s.Tools() {
				at, own := s.Original(merged)
				found, _ := s.Tool(merged.Name)
				switch {
				case len(merged.Name) > build.MaxName || !build.IsName(merged.Name):
					t.Errorf("%s is not a valid name", merged.Name)
				case found != merged:
					t.Errorf("%s is not found", merged.Name)
				case own.Plan.Path != merged.Plan.Path || s.NameIn(at, own.Name) != merged.Name || s.PartOf(merged) != c.steps[len(c.steps)-1][at]:
					t.Errorf("%s belongs to part %d (%s)", merged.Name, at, own.Plan.Path)
				}
			}
		})
	}
}

func TestMerge_same_parts(t *testing.T) {
	trains, buses := part("t", "list"), part("b", "list")
	m := newMerger(t, "trains", "buses")
	first := m.Merge(trains, buses)
	if again := m.Merge(trains, buses); again != first {
		t.Error("the same parts give another Toolset")
	}
	if n := testing.AllocsPerRun(100, func() { m.Merge(trains, buses) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
	second := m.Merge(trains, part("b", "list", "ride"))
	if second.Hash == first.Hash {
		t.Error("other parts give the same hash")
	}
	if m.Merge(nil, nil) != nil {
		t.Error("a Toolset without parts")
	}
	if got := newMerger(t, "trains", "buses").Merge(part("t", "list"), part("b", "list")).Hash; got != first.Hash {
		t.Error("equal parts give another hash")
	}
}

func TestMerge_scopes_of_own_document(t *testing.T) {
	trains, buses := part("t", "book"), part("b", "ride")
	trains.SecuritySchemes = map[string]*security.Scheme{"auth": {Name: "auth", Type: "apiKey"}}
	buses.SecuritySchemes = map[string]*security.Scheme{"auth": {Name: "auth", Type: "oauth2"}}
	for _, s := range []*Toolset{trains, buses} {
		s.Tools()[0].Plan.Security = []SecurityRequirement{{"auth": {"write"}}}
	}
	s := newMerger(t, "trains", "buses").Merge(trains, buses).Only(func(*Tool) bool { return true })
	for name, want := range map[string][]string{"book": nil, "ride": {"write"}} {
		one, _ := s.Tool(name)
		if got := new(Access).Missing(one, s); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: missing %q, want %q", name, got, want)
		}
	}
}

func TestMerge_describes_all(t *testing.T) {
	trains, buses := part("t", "book"), part("b", "ride")
	trains.Title, trains.Version, trains.Description = "Trains", "1.0.0", "Books trains. "+strings.Repeat("x", maxDescription)
	buses.Title, buses.Version, buses.Description = "Buses", "2.0.0", "Books buses."
	s := newMerger(t, "trains", "buses").Merge(trains, buses)
	if s.Title != "Trains, Buses" || s.Version != "1.0.0+2.0.0" || s.Report.Operations != 2 {
		t.Errorf("%q %q %d", s.Title, s.Version, s.Report.Operations)
	}
	if !strings.Contains(s.Description, "Buses: Books buses.") || !strings.HasPrefix(s.Description, "Trains: Books trains.") {
		t.Errorf("description %q", s.Description)
	}
}

// TestMerge_many_names checks that a source that lists ever new names neither takes memory without a limit nor makes the
// others lose their names.
func TestMerge_many_names(t *testing.T) {
	m := newMerger(t, "a", "b")
	m.Merge(part("a", "list"), server("b"))
	for i := range maxRemembered {
		m.names.owners[strconv.Itoa(i)] = nameKey{}
	}
	count := len(m.names.owners)
	got := namesOf(m.Merge(part("a", "list", "book"), server("b", "list", "new")))
	if want := map[string]string{"list": "/a/list", "a_book": "/a/book", "b_list": "/b/list", "b_new": "/b/new"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := len(m.names.owners); n != count {
		t.Errorf("%d names are remembered, want %d", n, count)
	}
}

// TestMerge_yields leaves out the tools of one source instead of giving them a prefix.
func TestMerge_yields(t *testing.T) {
	for rule, c := range map[string]struct {
		steps [][]*Toolset
		want  map[string]string
	}{
		"at start":                        {[][]*Toolset{{server("f", "list", "read"), part("b", "list")}}, map[string]string{"read": "/f/read", "list": "/b/list"}},
		"a newcomer that is first":        {[][]*Toolset{{server("f"), server("m", "list")}, {server("f", "list"), server("m", "list")}}, map[string]string{"list": "/m/list"}},
		"the name of a tool that is gone": {[][]*Toolset{{server("f"), part("b", "list")}, {server("f", "list"), part("b")}}, map[string]string{}},
	} {
		m, err := NewMerger(MergeOptions{Prefixes: []string{"files", "other"}, Yields: []bool{true, false}})
		if err != nil {
			t.Fatal(err)
		}
		var s *Toolset
		for _, parts := range c.steps {
			s = m.Merge(parts...)
		}
		if got := namesOf(s); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", rule, got, c.want)
		}
	}
}

// TestReserved_names gives tools of MCP servers with names of built-in tools the prefix of their toolset, under all names.
func TestReserved_names(t *testing.T) {
	const document = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{
		"/a":{"post":{"operationId":"next_page","x-mcp-server-kind":"tool","x-mcp-server":{"name":"next_page","inputSchema":{"type":"object"}}}},
		"/b":{"post":{"operationId":"files_next_page","x-mcp-server-kind":"tool","x-mcp-server":{"name":"files_next_page","inputSchema":{"type":"object"}}}},
		"/c":{"post":{"operationId":"gateway_search-tools","x-mcp-server-kind":"tool","x-mcp-server":{"name":"gateway_search-tools","inputSchema":{"type":"object"}}}}}}`
	for foreign, want := range map[bool][]string{
		true:  {"files_next_page_2", "files_next_page", "files_gateway_search_tools"},
		false: {"next_page", "files_next_page", "gateway_search_tools"},
	} {
		s, err := Build([]byte(document), BuildOptions{Name: "files", Foreign: foreign})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range s.Tools() {
			names = append(names, tool.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("foreign %t: %q, want %q", foreign, names, want)
		}
		if _, found := s.Tool("next_page"); found == foreign {
			t.Errorf("foreign %t: next_page is found: %t", foreign, found)
		}
	}
}

func TestNew_bad_prefixes(t *testing.T) {
	for _, prefixes := range [][]string{{"a", "a"}, {"a", ""}, {"a", "b c"}} {
		if _, err := NewMerger(MergeOptions{Prefixes: prefixes}); err == nil {
			t.Errorf("%q are accepted", prefixes)
		}
	}
}
