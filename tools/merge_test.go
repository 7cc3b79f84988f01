package tools

import (
	"reflect"
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

func newMerger(t *testing.T, names *MergedNames, prefixes ...string) *Merger {
	t.Helper()
	m, err := NewMerger(MergeOptions{Prefixes: prefixes, Names: names})
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
	}{
		"unique names stay": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "book"), part("b", "ride")}},
			map[string]string{"book": "/t/book", "ride": "/b/ride"},
		},
		"both get a prefix": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "list", "book"), part("b", "list")}},
			map[string]string{"trains_list": "/t/list", "book": "/t/book", "buses_list": "/b/list"},
		},
		"a part that is not loaded": {
			[]string{"trains", "buses"},
			[][]*Toolset{{nil, part("b", "list")}},
			map[string]string{"list": "/b/list"},
		},
		"a clash after a reload": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "list"), part("b", "ride")}, {part("t", "list"), part("b", "list")}},
			map[string]string{"trains_list": "/t/list", "buses_list": "/b/list"},
		},
		"prefixes stay when the clash ends": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "list"), part("b", "list")}, {part("t", "list"), part("b", "ride")}},
			map[string]string{"trains_list": "/t/list", "ride": "/b/ride"},
		},
		"a name stays with its document": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "list"), part("b", "ride")}, {part("t", "book"), part("b", "list")}},
			map[string]string{"book": "/t/book", "buses_list": "/b/list"},
		},
		"a name comes back to its document": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "list"), part("b")}, {part("t"), part("b", "list")}, {part("t", "list"), part("b")}},
			map[string]string{"list": "/t/list"},
		},
		"a prefixed name is not given to another tool": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "list"), part("b", "list")}, {part("t"), part("b", "trains_list")}},
			map[string]string{"buses_trains_list": "/b/trains_list"},
		},
		"a prefixed name that a tool has": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", "list"), part("b", "list", "trains_list")}},
			map[string]string{nameKey{"trains", "list"}.unique(): "/t/list", "buses_list": "/b/list", "trains_list": "/b/trains_list"},
		},
		"prefixed names that are equal": {
			[]string{"a", "a_b", "c"},
			[][]*Toolset{{part("1", "b_c"), part("2", "c"), part("3", "b_c", "c")}},
			map[string]string{
				nameKey{"a", "b_c"}.unique(): "/1/b_c", nameKey{"a_b", "c"}.unique(): "/2/c",
				"c_b_c": "/3/b_c", "c_c": "/3/c",
			},
		},
		"long names": {
			[]string{"trains", "buses"},
			[][]*Toolset{{part("t", long), part("b", long)}},
			map[string]string{build.ShortenName("trains_" + long): "/t/" + long, build.ShortenName("buses_" + long): "/b/" + long},
		},
	} {
		t.Run(rule, func(t *testing.T) {
			m := newMerger(t, nil, c.prefixes...)
			var s *Toolset
			for _, parts := range c.steps {
				s = m.Merge(parts...)
			}
			if got := namesOf(s); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
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
	m := newMerger(t, nil, "trains", "buses")
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
	if got := newMerger(t, nil, "trains", "buses").Merge(part("t", "list"), part("b", "list")).Hash; got != first.Hash {
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
	s := newMerger(t, nil, "trains", "buses").Merge(trains, buses).Only(func(*Tool) bool { return true })
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
	s := newMerger(t, nil, "trains", "buses").Merge(trains, buses)
	if s.Title != "Trains, Buses" || s.Version != "1.0.0+2.0.0" || s.Report.Operations != 2 {
		t.Errorf("%q %q %d", s.Title, s.Version, s.Report.Operations)
	}
	if !strings.Contains(s.Description, "Buses: Books buses.") || !strings.HasPrefix(s.Description, "Trains: Books trains.") {
		t.Errorf("description %q", s.Description)
	}
}

func TestMerge_forgets(t *testing.T) {
	names := NewMergedNames()
	for i := range maxRemembered + 1 {
		names.owners[strconv.Itoa(i)] = nameKey{}
	}
	newMerger(t, names, "a", "b").Merge(part("a", "list"), part("b", "list"))
	if n := len(names.owners); n != 2 {
		t.Errorf("%d names are remembered", n)
	}
}

func TestNew_bad_prefixes(t *testing.T) {
	for _, prefixes := range [][]string{{"a", "a"}, {"a", ""}, {"a", "b c"}} {
		if _, err := NewMerger(MergeOptions{Prefixes: prefixes}); err == nil {
			t.Errorf("%q are accepted", prefixes)
		}
	}
}
