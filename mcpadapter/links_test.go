package mcpadapter

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

func TestLinks_of_an_answer(t *testing.T) {
	for _, c := range []struct {
		rule, body     string
		location, link string
		old, new       []string // blocks after the first: before 2025-06-18, and since
	}{
		{"none", "x", "", "", nil, nil},
		{
			"absolute-location", `{"id":7}`, "https://api.example.com/trips/7", "",
			[]string{"Location: https://api.example.com/trips/7"},
			[]string{"https://api.example.com/trips/7 location"},
		},
		{"relative-location", `{"id":7}`, "/trips/9", "", []string{"Location: /trips/9"}, []string{"Location: /trips/9"}},
		{"location-without-body", "", "/trips/9", "", nil, nil},
		{"credentials", "x", "https://user:secret@api.example.com/", "", []string{"Location: https://api.example.com/"}, []string{"https://api.example.com/ location"}},
		{"script", "x", "javascript:alert(1)", "", []string{"Location: javascript:alert(1)"}, []string{"Location: javascript:alert(1)"}},
		{"not-a-url", "x", "http://[::1", "", []string{"Location: http://[::1"}, []string{"Location: http://[::1"}},
		{
			"link", "x", "", `<https://api.example.com/?page=2>; rel="next"; title="Page 2"; type=application/json`,
			[]string{`Link: <https://api.example.com/?page=2>; rel="next"`},
			[]string{"https://api.example.com/?page=2 next Page 2 application/json"},
		},
	} {
		for _, v := range revisions {
			t.Run(c.rule+"/"+v.String(), func(t *testing.T) {
				outcome := answered(http.StatusCreated, "text/plain", c.body)
				if c.location != "" {
					outcome.Result.Header.Set("Location", c.location)
				}
				if c.link != "" {
					outcome.Result.Header.Set("Link", c.link)
				}
				var got struct {
					Content []struct{ Type, Text, URI, Name, Title, MimeType string }
				}
				call(v, returning(outcome)).result(t, "CallToolResult", &got)
				var blocks []string
				for _, b := range got.Content[1:] {
					blocks = append(blocks, strings.TrimSpace(fmt.Sprint(b.Text, b.URI, " ", b.Name, " ", b.Title, " ", b.MimeType)))
				}
				want := c.new
				if v < protocol.V20250618 {
					want = c.old
				}
				if !reflect.DeepEqual(blocks, want) {
					t.Errorf("got %q, want %q", blocks, want)
				}
			})
		}
	}
}

// What the API links to is a resource where it is one.
func TestLink_to_a_resource(t *testing.T) {
	tools := stationTools(t)
	tools.Origin = "https://stations.example.com"
	m := scope{server: stocked(t, Options{}), site: &Site{}, tools: tools, version: protocol.V20251125}
	links := m.links(tools.Tools()[0])
	for location, want := range map[string]string{
		"/stations/7": `,{"type":"resource_link","uri":"trains:///stations/7","name":"get_station","description":"location"}`,
		"https://stations.example.com/stations/7": `,{"type":"resource_link","uri":"trains:///stations/7","name":"get_station","description":"location"}`,
		"https://other.example.com/stations/7":    `,{"type":"resource_link","uri":"https://other.example.com/stations/7","name":"location"}`,
		"//other.example.com/stations/7":          ``,
		"stations/7":                              ``,
	} {
		outcome := answered(http.StatusCreated, "", "")
		outcome.Result.Header.Set("Location", location)
		if got := string(links.AppendTo(nil, outcome.Result)); got != want {
			t.Errorf("%s: %s", location, got)
		}
	}
}
