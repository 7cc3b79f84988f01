package content

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseLinks(t *testing.T) {
	for _, c := range []struct {
		rule    string
		headers []string
		want    []link
	}{
		{"one", []string{`<https://a.example/?p=2>; rel="next"`}, []link{{"https://a.example/?p=2", "next", "", ""}}},
		{"token", []string{`</x>;rel=next`}, []link{{"/x", "next", "", ""}}},
		{"two", []string{`</a>; rel="next", </b>; rel="last"`}, []link{{"/a", "next", "", ""}, {"/b", "last", "", ""}}},
		{"two-headers", []string{`</a>; rel=next`, `</b>; rel=prev`}, []link{{"/a", "next", "", ""}, {"/b", "prev", "", ""}}},
		{"several-relations", []string{`</a>; rel="https://x.example/rel First"`}, []link{{"/a", "first", "", ""}}},
		{"comma-in-target", []string{`</a,b;c>; rel=next`}, []link{{"/a,b;c", "next", "", ""}}},
		{"quoted", []string{`</a>; title="a \"b\", c; d"; rel=next; type="Text/HTML"`}, []link{{"/a", "next", `a "b", c; d`, "text/html"}}},
		{"case", []string{`</a>; REL=NEXT`}, []link{{"/a", "next", "", ""}}},
		{"first-relation-counts", []string{`</a>; rel=preload; rel=next`}, nil},
		{"useless", []string{`</a.css>; rel=preload; as=style, </b>; rel=next`}, []link{{"/b", "next", "", ""}}},
		{"anchored", []string{`</a>; rel=next; anchor="/other"`}, nil},
		{"no-relation", []string{`</a>`}, nil},
		{"empty-target", []string{`<>; rel=next`}, nil},
		{"flag", []string{`</a>; crossorigin; rel=next`}, []link{{"/a", "next", "", ""}}},
		{"space", []string{" , </a> ; rel = \"next\" ,, "}, []link{{"/a", "next", "", ""}}},
		{"malformed", []string{`/a; rel=next`, `</b; rel=next`, `</c>; rel="next`}, []link{{"/c", "next", "", ""}}},
		{"too-long", []string{strings.Repeat("x", maxLinkHeader+1), `</a>; rel=next`}, nil},
		{"too-many", []string{strings.Repeat(`</a>; rel=next,`, 100)}, repeat(link{"/a", "next", "", ""}, maxLinks)},
	} {
		if got := parseLinks(c.headers); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v", c.rule, got)
		}
	}
}

func repeat(l link, n int) (links []link) {
	for range n {
		links = append(links, l)
	}
	return links
}

// FuzzLinks holds for any headers: the links are few, and have a target and a
// relation that is of use.
func FuzzLinks(f *testing.F) {
	f.Add(`</a>; rel="next"; title="\"x", <b>;rel=prev;anchor="#x"`)
	f.Add(`</a>; rel="next", <b>; title="x\"`)
	f.Add(`<a>;rel="`)
	f.Add(`<a>;;;=;rel=item;rel=up,,,<`)
	f.Fuzz(func(t *testing.T, header string) {
		links := parseLinks([]string{header, header})
		for _, l := range links {
			if !relations[l.relation] || l.target == "" || len(l.title) > maxLinkTitle+len("…") {
				t.Errorf("%q is read as %+v", header, l)
			}
		}
		if len(links) > maxLinks {
			t.Errorf("%d links", len(links))
		}
	})
}
