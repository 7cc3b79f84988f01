package mcp_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestMCPWatch_polls_once_for_all_streams_of_a_user wants 20 streams of 50 resources to
// make as many requests as one, within the rate, and each stream to be notified of a
// change.
func TestMCPWatch_polls_once_for_all_streams_of_a_user(t *testing.T) {
	const streams, resources, rate = 20, 50, 200
	var mu sync.Mutex
	polls, total, version := make(map[string]int), 0, "1"
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		polls[r.URL.Path]++
		total++
		if r.URL.Path == "/trips/7" {
			fmt.Fprint(w, version)
		}
	})
	s := sitetest.Run(t, "", fmt.Sprintf(`
		mcp TRIPS {
			resources get operation getTrip
			watch_interval 200ms
			watch_rate %d
		}
		reverse_proxy %s`, rate, api))
	templates := library(s, "resources/templates/list", "")
	_, template, _ := strings.Cut(templates, `"uriTemplate":"`)
	prefix, _, found := strings.Cut(template, "{id}")
	if !found {
		t.Fatalf("no template: %s", templates)
	}
	var uris []string
	for id := range resources {
		uris = append(uris, fmt.Sprintf("%q", prefix+fmt.Sprint(id)))
	}
	begun := time.Now()
	var readers []*bufio.Reader
	for range streams {
		stream := sitetest.StreamsOf(s).ListenTo(`{"resourceSubscriptions":[` + strings.Join(uris, ",") + `]}`)
		readers = append(readers, bufio.NewReader(stream.Body))
	}
	const rounds = 3
	var least, most int
	sitetest.Eventually(t, "three polls of each resource", func() bool {
		mu.Lock()
		defer mu.Unlock()
		least, most = 1<<30, 0
		for id := range resources {
			n := polls[fmt.Sprintf("/trips/%d", id)]
			least, most = min(least, n), max(most, n)
		}
		return least >= rounds
	})
	if most > least+2 {
		t.Errorf("one resource was polled %d times and another %d times", most, least)
	}
	mu.Lock()
	if most := int(time.Since(begun).Seconds()*rate) + 1; total > most {
		t.Errorf("%d polls in %s, want at most %d", total, time.Since(begun), most)
	}
	version = "2"
	mu.Unlock()
	for i, lines := range readers {
		sitetest.Message(s.T, lines) // acknowledged
		if update := sitetest.Message(s.T, lines); !strings.Contains(update, "resources/updated") || !strings.Contains(update, prefix+"7") {
			t.Errorf("stream %d got %s", i, update)
		}
	}
}

// TestMCPWatch_users_do_not_share_polls wants the API to be asked as each caller: with
// its own credentials, or with those that the site makes of what the caller sent.
func TestMCPWatch_users_do_not_share_polls(t *testing.T) {
	var mu sync.Mutex
	polls := make(map[string]int) // by credential
	api := sitetest.Upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		polls[r.Header.Get("Authorization")+r.Header.Get("X-Tenant")]++
	})
	s := sitetest.Run(t, "", "route {\nvars tenant {header.X-Key}\nrequest_header -X-Key\nmcp TRIPS {\nresources get operation listTrips\nwatch_interval 1h\n}\n"+
		"reverse_proxy "+api+" {\nheader_up X-Tenant {vars.tenant}\n}\n}")
	list := library(s, "resources/list", "")
	_, uri, _ := strings.Cut(list, `"uri":"`)
	uri, _, _ = strings.Cut(uri, `"`)
	for _, caller := range [][2]string{{"Authorization", "Bearer one"}, {"Authorization", "Bearer two"}, {"X-Key", "blue"}, {"X-Key", "green"}} {
		sitetest.StreamsOf(s).ListenTo(`{"resourceSubscriptions":["`+uri+`"]}`, caller[0], caller[1])
	}
	sitetest.Eventually(t, "polls as each caller", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return polls["Bearer one"] == 1 && polls["Bearer two"] == 1 && polls["blue"] == 1 && polls["green"] == 1
	})
}
