package route_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestStreamSite sends streams through the handlers of a real site.
func TestStreamSite(t *testing.T) {
	seen := make(chan struct{})
	saw := sync.OnceFunc(func() { close(seen) })
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		contentType := "text/event-stream"
		if strings.HasSuffix(r.URL.Path, "lines") {
			contentType = "application/x-ndjson"
		}
		w.Header().Set("Content-Type", contentType)
		flush := http.NewResponseController(w).Flush
		switch id := strings.TrimPrefix(r.URL.Path, "/trips/"); id {
		case "result":
			fmt.Fprint(w, "event: progress\ndata: {\"progress\":1}\n\n")
			_ = flush()
			fmt.Fprint(w, "event: result\ndata: {\"to\":\"Bern\"}\n\n")
		case "lines":
			fmt.Fprint(w, "{\"progress\":1}\n{\"to\":")
			_ = flush()
			fmt.Fprint(w, "\"Bern\"}\n")
		case "cut":
			fmt.Fprint(w, "data: half\n\n")
			_ = flush()
			panic(http.ErrAbortHandler)
		default:
			fmt.Fprint(w, "data: first\n\n")
			_ = flush()
			<-seen
			fmt.Fprint(w, "data: second\n\n")
		}
	})
	for name, directives := range map[string]string{
		"alone":       "mcp TRIPS",
		"behind ocp":  "encode\nocp {\ntoolset TRIPS\nenhance greeting `\"hello\"`\n}\nmcp TRIPS",
		"before ocp":  "route {\nmcp TRIPS\nocp {\ntoolset TRIPS\nenhance greeting `\"hello\"`\n}\nencode\nreverse_proxy " + api + "\n}",
		"buffered":    "mcp TRIPS\nrequest_body {\nmax_size 1MB\n}",
		"intercepted": "mcp TRIPS\nintercept {\n@bad status 500\nhandle_response @bad {\nrespond oops\n}\n}",
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.Run(t, "", directives+"\nreverse_proxy "+api)
			for _, id := range []string{"result", "lines"} {
				if got := s.Succeed("getTrip", fmt.Sprintf(`{"id":%q}`, id)); got != `{"to":"Bern"}` {
					t.Errorf("%s: %s", id, got)
				}
			}
			s.Fail("getTrip", `{"id":"cut"}`, "closed")
		})
	}

	t.Run("a request that is no tool call", func(t *testing.T) {
		s := sitetest.Run(t, "", "ocp {\ntoolset TRIPS\nenhance greeting `\"hello\"`\n}\nmcp TRIPS\nreverse_proxy "+api)
		response, err := http.Get(s.URL + "/trips/live")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		defer saw()
		first := make([]byte, len("data: first\n\n"))
		if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "data: first\n\n" {
			t.Errorf("%q, %v", first, err)
		}
		saw() // the second event is sent after the first has been read
		rest, err := io.ReadAll(response.Body)
		if err != nil || string(rest) != "data: second\n\n" || response.Header.Get("Content-Type") != "text/event-stream" {
			t.Errorf("%q, %v, %v", rest, err, response.Header)
		}
	})
}
