package inspectors_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// A checker is the server of a webhook. Respond gets the phase and the content.
type checker struct {
	mu      sync.Mutex
	asked   []string // the requests without the content
	respond func(w http.ResponseWriter, r *http.Request, phase, content string)
}

func (c *checker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		Version         int
		Phase, Protocol string
		Tool            struct{ Name, Toolset string }
		User            struct{ ID string }
		Content         json.RawMessage
	}
	err := json.Unmarshal(body, &m)
	c.mu.Lock()
	c.asked = append(c.asked, fmt.Sprintf("%d %s %s %s/%s %s signed=%t %v", m.Version, m.Phase, m.Protocol, m.Tool.Toolset, m.Tool.Name, m.User.ID,
		strings.HasPrefix(r.Header.Get("Webhook-Signature"), "v1,") && r.Header.Get("Webhook-Id") != "" && r.Header.Get("Webhook-Timestamp") != "", err))
	c.mu.Unlock()
	c.respond(w, r, m.Phase, string(m.Content))
}

// webhookSite runs a site whose toolset has the webhook. The API returns the planted values.
func webhookSite(t *testing.T, options string, respond func(w http.ResponseWriter, r *http.Request, phase, content string)) (*sitetest.Site, *checker, *int) {
	t.Helper()
	c := &checker{respond: respond}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	calls := new(int)
	api := sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		*calls++
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"to":%s}`, quoted(all))
	})
	s := sitetest.Run(t, "agents {\n\ttoolset trips {\nopenapi TRIPS\ninspect webhook "+server.URL+"/check {\nsecret 0123456789abcdef0123456789abcdef\n"+options+"\n}\n}\n}",
		"route {\ntest_user\nmcp trips\nreverse_proxy "+api+"\n}")
	return s, c, calls
}

func call(s *sitetest.Site, tool, arguments string) string {
	r := s.CallRequest(tool, arguments)
	r.Header.Set("X-Test-User", "ada")
	return s.Do(r).Body
}

func TestWebhook_decides(t *testing.T) {
	s, c, calls := webhookSite(t, "", func(w http.ResponseWriter, _ *http.Request, phase, content string) {
		switch {
		case phase == "result":
			_, _ = io.WriteString(w, `{"decision":"mask","content":{"to":"`+masked+`"},"labels":["email"]}`)
		case strings.Contains(content, "Bern"):
			_, _ = io.WriteString(w, `{"decision":"pass"}`)
		case strings.Contains(content, "Oslo"):
			_, _ = io.WriteString(w, `{"decision":"mask","content":{"to":"Bergen"}}`)
		default:
			_, _ = io.WriteString(w, `{"decision":"reject","message":"no trips to this city","reason":"closed station"}`)
		}
	})
	if got := call(s, "createTrip", `{"to":"Bern"}`); !strings.Contains(got, masked) {
		t.Errorf("pass and mask: %s", got)
	}
	want := "1 arguments mcp trips/createTrip ada signed=true <nil>\n1 result mcp trips/createTrip ada signed=true <nil>"
	if got := strings.Join(c.asked, "\n"); got != want {
		t.Errorf("the webhook got\n%s\nwant\n%s", got, want)
	}
	if got := call(s, "createTrip", `{"to":"Oslo"}`); !strings.Contains(got, masked) || *calls != 2 {
		t.Errorf("masked arguments: %s", got)
	}
	got := call(s, "createTrip", `{"to":"Rome"}`)
	if !strings.Contains(got, "no trips to this city") || strings.Contains(got, "closed station") || *calls != 2 {
		t.Errorf("rejected: %s after %d calls", got, *calls)
	}
	if !strings.Contains(s.Log(), "closed station") {
		t.Error("the log has no reason")
	}
	without(t, "the responses", got)
}

// TestWebhook_fails_closed wants calls to be rejected if the webhook does not decide, unless on_error is pass.
func TestWebhook_fails_closed(t *testing.T) {
	for name, respond := range map[string]func(w http.ResponseWriter, r *http.Request, phase, content string){
		"error": func(w http.ResponseWriter, _ *http.Request, _, _ string) {
			w.WriteHeader(http.StatusInternalServerError)
		},
		"redirect": func(w http.ResponseWriter, _ *http.Request, _, _ string) {
			w.Header().Set("Location", "/")
			w.WriteHeader(http.StatusFound)
		},
		"no JSON": func(w http.ResponseWriter, _ *http.Request, _, _ string) { _, _ = io.WriteString(w, "<html>") },
		"unknown": func(w http.ResponseWriter, _ *http.Request, _, _ string) {
			_, _ = io.WriteString(w, `{"decision":"maybe"}`)
		},
		"no value": func(w http.ResponseWriter, _ *http.Request, _, _ string) {
			_, _ = io.WriteString(w, `{"decision":"mask"}`)
		},
		"too large": func(w http.ResponseWriter, _ *http.Request, _, _ string) {
			_, _ = io.WriteString(w, `{"decision":"pass","x":"`+strings.Repeat("x", 2<<20)+`"}`)
		},
		"slow": func(_ http.ResponseWriter, r *http.Request, _, _ string) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			timeout := "5s"
			if name == "slow" {
				timeout = "50ms"
			}
			s, _, calls := webhookSite(t, "timeout "+timeout, respond)
			if got := call(s, "createTrip", `{"to":"Bern"}`); *calls != 0 || !strings.Contains(got, "not available") || !strings.Contains(got, `"isError":true`) {
				t.Errorf("on_error deny, %d calls: %s", *calls, got)
			}
			s, _, calls = webhookSite(t, "on_error pass\ntimeout "+timeout, respond)
			if got := call(s, "createTrip", `{"to":"Bern"}`); *calls != 1 || strings.Contains(got, `"isError":true`) {
				t.Errorf("on_error pass, %d calls: %s", *calls, got)
			}
		})
	}
}

// TestInspect_too_large wants a response that is larger than inspectors read to be withheld.
func TestInspect_too_large(t *testing.T) {
	api := sitetest.Upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"pad":%q,"to":%s}`, strings.Repeat("x", 1<<20), quoted(all))
	})
	s := sitetest.Run(t, "agents {\n\ttoolset trips {\nopenapi TRIPS\n"+both+"}\n}", "route {\ntest_user\nmcp trips\nreverse_proxy "+api+"\n}")
	got := call(s, "getTrip", `{"id":"7"}`)
	if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "1024 KiB") {
		t.Errorf("got %.300s", got)
	}
	without(t, "the response", got)
}
