package inspectors_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// presidio is an analyzer that finds the name Ada Lovelace, and Ada alone, as Presidio reports it.
func presidio(w http.ResponseWriter, r *http.Request) {
	var request struct{ Text, Language string }
	if json.NewDecoder(r.Body).Decode(&request) != nil || r.URL.Path != "/analyze" || request.Language != "en" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	results := []string{}
	for _, name := range []string{"Ada", "Ada Lovelace"} {
		for at := 0; ; at++ {
			i := strings.Index(request.Text[at:], name)
			if i < 0 {
				break
			}
			at += i
			start := utf8.RuneCountInString(request.Text[:at])
			results = append(results, fmt.Sprintf(`{"entity_type":"PERSON","start":%d,"end":%d,"score":0.85,"analysis_explanation":null}`, start, start+len(name)))
		}
	}
	_, _ = io.WriteString(w, "["+strings.Join(results, ",")+"]")
}

// remoteSite runs a site with an inspector at a server. ADDRESS in the options is its URL. The API returns the response.
func remoteSite(t *testing.T, inspector string, server http.HandlerFunc, response string) (s *sitetest.Site, calls *int) {
	t.Helper()
	remote := httptest.NewServer(server)
	t.Cleanup(remote.Close)
	calls = new(int)
	api := sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		*calls++
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, response)
	})
	return sitetest.Run(t, "agents {\n\ttoolset trips {\nopenapi TRIPS\n"+strings.ReplaceAll(inspector, "ADDRESS", remote.URL)+"\n}\n}",
		"route {\ntest_user\nmcp trips\nreverse_proxy "+api+"\n}"), calls
}

func TestPresidio_masks_and_rejects(t *testing.T) {
	const response = `{"a":"🚆 für Ada Lovelace","b":["Ada","Ada","Bob"],"text":"{\"by\":\"Ada Lovelace\"}","n":7}`
	s, _ := remoteSite(t, "inspect presidio mask ADDRESS", presidio, response)
	want := quoted(`{"a":"🚆 für [person]","b":["[person]","[person]","Bob"],"text":"{\"by\":\"[person]\"}","n":7}`)
	if got := call(s, "getTrip", `{"id":"7"}`); !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
	s, _ = remoteSite(t, "inspect presidio reject ADDRESS {\nphases arguments result\n}", presidio, response)
	if got := call(s, "getTrip", `{"id":"7"}`); !strings.Contains(got, "found person") || strings.Contains(got, "Lovelace") {
		t.Errorf("a result: %s", got)
	}
	s, calls := remoteSite(t, "inspect presidio reject ADDRESS {\nphases arguments\n}", presidio, response)
	if got := call(s, "getTrip", `{"id":"Ada"}`); !strings.Contains(got, "found person") || *calls != 0 {
		t.Errorf("arguments: %s", got)
	}
}

func TestModeration_rejects(t *testing.T) {
	moderation := func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Model string
			Input []string
		}
		if json.NewDecoder(r.Body).Decode(&request) != nil || request.Model != "omni-moderation-latest" || r.Header.Get("Authorization") != "Bearer sk-test" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var results []string
		for _, input := range request.Input {
			harmful := strings.Contains(input, "harm")
			results = append(results, fmt.Sprintf(`{"flagged":%t,"categories":{"violence":%[1]t,"self-harm/intent":false}}`, harmful))
		}
		_, _ = io.WriteString(w, `{"id":"m","results":[`+strings.Join(results, ",")+`]}`)
	}
	harmful := fmt.Sprintf(`{"a":%q,"b":"harm"}`, strings.Repeat("é ", 10<<10)) // several inputs
	for name, c := range map[string]struct {
		options, response string
		want              string
	}{
		"harmful":               {"", harmful, "found violence"},
		"harmless":              {"", `{"a":"a friendly text"}`, "friendly"},
		"another category":      {"categories self-harm/intent", harmful, `"b\":\"harm\"`},
		"wrong key":             {"key other", `{"a":"a friendly text"}`, "not available"},
		"wrong key, which pass": {"key other\non_error pass", `{"a":"a friendly text"}`, "friendly"},
	} {
		t.Run(name, func(t *testing.T) {
			options := c.options
			if !strings.Contains(options, "key") {
				options += "\nkey sk-test"
			}
			s, _ := remoteSite(t, "inspect moderation {\nurl ADDRESS\n"+options+"\n}", moderation, c.response)
			if got := call(s, "getTrip", `{"id":"7"}`); !strings.Contains(got, c.want) {
				t.Errorf("got %.500s, want %s", got, c.want)
			}
			if strings.Contains(s.Log(), "sk-test") {
				t.Error("the log has the key")
			}
		})
	}
}

// TestRemote_fails_closed wants responses that say nothing, or nonsense, to withhold the result.
func TestRemote_fails_closed(t *testing.T) {
	for name, response := range map[string]string{
		"status":      "",
		"no JSON":     "<html>",
		"another":     `{"detections":[]}`,
		"outside":     `[{"entity_type":"PERSON","start":3,"end":100000,"score":1}]`,
		"negative":    `[{"entity_type":"PERSON","start":-1,"end":2,"score":1}]`,
		"no results":  `{"results":[]}`,
		"no decision": `{"results":[{"categories":{}}]}`,
	} {
		for _, inspector := range []string{"inspect presidio ADDRESS", "inspect moderation {\nurl ADDRESS\nphases result\n}"} {
			s, calls := remoteSite(t, inspector, func(w http.ResponseWriter, _ *http.Request) {
				if response == "" {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				_, _ = io.WriteString(w, response)
			}, `{"by":"Ada"}`)
			if got := call(s, "getTrip", `{"id":"7"}`); *calls != 1 || !strings.Contains(got, "not available") || strings.Contains(got, "Ada") {
				t.Errorf("%s, %s: %s", name, inspector, got)
			}
		}
	}
}
