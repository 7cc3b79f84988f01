package files_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	"github.com/fairwayhq/fairway/files"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// TestUploads_refused_leave_nothing_behind sends what must be refused to URLs of uploads.
func TestUploads_refused_leave_nothing_behind(t *testing.T) {
	s := newUploads(t, "max_size 1MiB", "", "")
	two, twoFiles := form(t, map[string]string{"a.png": "a", "b.png": "b"})
	_, noFile := form(t, nil)
	large := make([]byte, 2<<20)
	for name, c := range map[string]struct {
		create, method, contentType string
		body                        io.Reader
		length                      int64 // of the header; 0 for that of the body
		status                      int
		unspent                     bool // the URL can be used afterwards
		word                        string
	}{
		"wrong type":               {create: forPhoto, contentType: "text/html", body: strings.NewReader("x"), status: 415, unspent: true, word: "image/png"},
		"no type":                  {create: forPhoto, body: strings.NewReader("x"), status: 415, unspent: true, word: "octet-stream"},
		"too large by header":      {create: forRaw, body: bytes.NewReader(large), status: 413, unspent: true, word: "limit"},
		"1 GB":                     {create: forRaw, body: io.LimitReader(bytes.NewReader(large), 10), length: 1 << 30, status: 413, unspent: true, word: "limit"},
		"too large by stream":      {create: forRaw, body: io.MultiReader(bytes.NewReader(large)), status: 413, word: "limit"},
		"too large for the schema": {create: forNote, contentType: "text/plain", body: strings.NewReader(strings.Repeat("x", 31)), status: 413, unspent: true, word: "30"},
		"another size by header":   {create: `{"tool":"putRaw","field":"body","size":4}`, body: strings.NewReader("12345"), status: 400, unspent: true, word: "size"},
		"another size by stream":   {create: `{"tool":"putRaw","field":"body","size":4}`, body: io.MultiReader(strings.NewReader("12345")), status: 400, word: "size"},
		"wrong checksum":           {create: `{"tool":"putRaw","field":"body","sha256":"` + hexSum([]byte("other")) + `"}`, body: strings.NewReader("12345"), status: 400, word: "SHA-256"},
		"two files":                {create: forPhoto, method: "POST", contentType: two, body: twoFiles, status: 400, word: "one file"},
		"no file":                  {create: forPhoto, method: "POST", contentType: two, body: noFile, status: 400, unspent: true, word: "one file"},
		"no boundary":              {create: forPhoto, method: "POST", contentType: "multipart/form-data", body: strings.NewReader("x"), status: 400, unspent: true, word: "form"},
		"another method":           {create: forRaw, method: "DELETE", body: strings.NewReader(""), status: 405, unspent: true, word: "PUT"},
		"a long name":              {create: forPhoto, method: "POST", contentType: `multipart/form-data; boundary=x`, body: strings.NewReader("--x\r\nContent-Disposition: form-data; name=f; filename=" + strings.Repeat("n", 300) + "\r\nContent-Type: image/png\r\n\r\nx\r\n--x--"), status: 400, unspent: true, word: "long"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &uploadSite{s.With(t), s.api}
			created := s.create(name, c.create)
			if c.method == "" {
				c.method = "PUT"
			}
			r, err := http.NewRequest(c.method, created.Descriptor.URL, c.body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", c.contentType)
			var a sitetest.Response
			if c.length > 0 {
				a = raw(t, s.Port, fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\nConnection: close\r\n\r\nabc", r.URL.Path, c.length))
			} else {
				a = s.Do(r)
			}
			if a.Status != c.status || !strings.Contains(a.Body, c.word) {
				t.Errorf("%d %s, want %d with %q", a.Status, a.Body, c.status, c.word)
			}
			text, isError := s.call(name, "putRaw", `{"body":{"upload":"`+created.Upload+`"}}`)
			if want := map[bool]string{true: "nothing was uploaded", false: "does not exist"}[c.unspent]; !isError || !strings.Contains(text, want) {
				t.Errorf("the handle: %s, want %q", text, want)
			}
		})
	}
	if n := s.api.count(); n != 0 {
		t.Errorf("the API was called %d times", n)
	}
	s.wantKept(t, 10, 0)
}

// raw sends bytes, and returns the response that comes before the rest of the request.
func raw(t *testing.T, port int, request string) (a sitetest.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, request)
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	answer, _ := io.ReadAll(conn)
	_, _ = fmt.Sscanf(string(answer), "HTTP/1.1 %d", &a.Status)
	a.Body = string(answer)
	return a
}

// wantKept stops the site, and checks how many uploads and how many chunks of files the store has.
func (s *uploadSite) wantKept(t *testing.T, records, chunks int) {
	t.Helper()
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	st, err := embedded.Open(filepath.Join(s.Dir, "store.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	found, entries := 0, 0
	err = store.Scan(t.Context(), st, files.KeyPrefix, func(_ string, r store.Record) error {
		found++
		entries += int(r.Length)
		return nil
	})
	if err != nil || found != records || entries != chunks {
		t.Errorf("the store has %d uploads and %d chunks, want %d and %d; error %v", found, entries, records, chunks, err)
	}
}

func TestUploads_slow_body_is_refused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a client may be silent")
	}
	s := newUploads(t, "", "", "")
	c := s.create("ada", forRaw)
	path := strings.TrimPrefix(c.Descriptor.URL, s.URL)
	if a := raw(t, s.Port, "PUT "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\nabc"); a.Status != http.StatusRequestTimeout {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if text, isError := s.call("ada", "putRaw", `{"body":{"upload":"`+c.Upload+`"}}`); !isError || !strings.Contains(text, "nothing was uploaded") {
		t.Error(text)
	}
	s.wantKept(t, 1, 0)
}

// TestUploads_broken_upload_can_be_repeated ends a connection within a body of two chunks.
func TestUploads_broken_upload_can_be_repeated(t *testing.T) {
	s := newUploads(t, "max_size 4MiB", "", "")
	c := s.create("ada", forRaw)
	path, content := strings.TrimPrefix(c.Descriptor.URL, s.URL), strings.Repeat("x", 1<<20)
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "PUT "+path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3000000\r\n\r\n"+content)
	conn.Close()
	testkit.Eventually(t, "the upload after the broken one", func() bool {
		return s.Request("PUT", path, content, "Content-Type", "application/pdf").Status == http.StatusCreated
	})
	if text, isError := s.call("ada", "putRaw", `{"body":{"upload":"`+c.Upload+`"}}`); isError {
		t.Error(text)
	}
	if got, _ := s.api.last(); len(got) != len(content) {
		t.Errorf("the API got %d bytes, want %d", len(got), len(content))
	}
	s.wantKept(t, 1, 2)
}

// TestUploads_handles_of_others checks that a handle is its owner's, and is used by one call, which can be repeated.
func TestUploads_handles_are_for_one_owner_and_one_call(t *testing.T) {
	s := newUploads(t, "", "", "")
	handle := s.uploaded("ada", forRaw, "", []byte("secret"))
	unknown, _ := s.call("ada", "putRaw", `{"body":{"upload":"upl_aaaaaaaaaaaaaaaaaaaaaaaaaa"}}`)
	for _, user := range []string{"bob", ""} {
		if text, isError := s.call(user, "putRaw", `{"body":`+handle+`}`); !isError || text != unknown {
			t.Errorf("user %q: %s, want %s", user, text, unknown)
		}
	}
	for _, malformed := range []string{`{"upload":"upl_"}`, `{"upload":"upl_` + strings.Repeat("a", 600) + `"}`, `{"upload":"upl_../../x"}`} {
		if text, isError := s.call("ada", "putRaw", `{"body":`+malformed+`}`); !isError || text != unknown {
			t.Errorf("%.40s: %s", malformed, text)
		}
	}
	if text, isError := s.call("ada", "addPhoto", `{"photo":`+handle+`}`); !isError || !strings.Contains(text, "image/png") {
		t.Errorf("an argument that does not take the type: %s", text)
	}
	if text, isError := s.call("ada", "putRaw", `{"body":`+handle+`,"unknown":1}`); !isError || !strings.Contains(text, "no such argument") {
		t.Errorf("invalid arguments: %s", text)
	}
	if n := s.api.count(); n != 0 {
		t.Fatalf("the API was called %d times", n)
	}
	for range 2 {
		if text, isError := s.call("ada", "putRaw", `{"body":`+handle+`}`); isError {
			t.Fatal(text)
		}
	}
	if text, isError := s.call("ada", "putRaw", `{"body":`+handle+`,"X_Trace":"other"}`); !isError || !strings.Contains(text, "another call") {
		t.Errorf("another call: %s", text)
	}
	if n := s.api.count(); n != 2 {
		t.Errorf("the API was called %d times", n)
	}
	forged := fmt.Sprintf(`{"name":"","type":"application/octet-stream","size":6,"sha256":%q}`, hexSum([]byte("secret")))
	if text, isError := s.call("bob", "putRaw", `{"body":`+forged+`}`); !isError {
		t.Errorf("a description instead of a handle: %s", text)
	}
}

func TestUploads_of_one_call_are_limited(t *testing.T) {
	s := newUploads(t, "max_size 10\nmax_files 5", "", "")
	full, empty := s.uploaded("ada", forNote, "text/plain", make([]byte, 10)), s.uploaded("ada", forNote, "text/plain", nil)
	for handle, most := range map[string]int{full: 4, empty: 5} {
		for _, n := range []int{most, most + 1} {
			parts := strings.Repeat(`{"text":`+handle+`},`, n)
			text, isError := s.call("ada", "addNote", `{"parts":[`+parts[:len(parts)-1]+`]}`)
			if refused := strings.Contains(text, "too many files"); refused != isError || refused != (n > most) {
				t.Errorf("%d times %s: %s", n, handle, text)
			}
		}
	}
}

func TestUploads_are_only_for_arguments_that_take_them(t *testing.T) {
	s := newUploads(t, "", "", "")
	handle, other := s.uploaded("ada", forNote, "text/plain", []byte("content")), s.uploaded("ada", forRaw, "", []byte("other"))
	s.call("ada", "addNote", `{"parts":[{"text":`+handle+`}],"extra":{"a":`+other+`}}`)
	if body, _ := s.api.last(); string(body) != `{"extra":{"a":`+other+`},"parts":[{"text":"Y29udGVudA=="}]}` {
		t.Errorf("the API got %s", body)
	}
}

// TestUploads_repeated_calls_need_the_rights repeats a call with a key after the user has lost the right to make it.
func TestUploads_repeated_calls_need_the_rights(t *testing.T) {
	s := newUploads(t, "", "", "")
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"putRaw","arguments":{"body":` + s.uploaded("ada", forRaw, "", []byte("1234567")) + `}}}`
	for _, c := range []struct {
		allow string
		want  string
	}{{"", "fairwayhq/call"}, {"", "replayed"}, {`allow "arguments.body.size != 7"`, "may not call"}} {
		s.start("", c.allow, "")
		if a := s.Post("/mcp", body, map[string]string{"X-Test-User": "ada", "Idempotency-Key": "k1"}); !strings.Contains(a.Body, c.want) {
			t.Errorf("with %q: %s, want %s", c.allow, a.Body, c.want)
		}
	}
	if n := s.api.count(); n != 1 {
		t.Errorf("the API was called %d times", n)
	}
}

func TestUploads_expire(t *testing.T) {
	s := newUploads(t, "redeem 1s\nkeep 1s", "", "")
	c := s.create("ada", forRaw)
	sitetest.Eventually(t, "410", func() bool {
		return s.send(http.MethodGet, c.Descriptor.URL, "", nil).Status == http.StatusGone
	})
	if a := s.send(http.MethodPut, c.Descriptor.URL, "", strings.NewReader("x")); a.Status != http.StatusGone {
		t.Errorf("an expired URL: %d %s", a.Status, a.Body)
	}
	handle := s.uploaded("ada", forRaw, "", []byte("x"))
	sitetest.Eventually(t, "the end of a file", func() bool {
		text, isError := s.call("ada", "putRaw", `{"body":`+handle+`,"X_Trace":"never"}`)
		return isError && strings.Contains(text, "does not exist")
	})
	if a := s.send(http.MethodPut, s.URL+"/up/unknown", "", strings.NewReader("x")); a.Status != http.StatusNotFound {
		t.Errorf("an unknown URL: %d %s", a.Status, a.Body)
	}
}

func TestUploads_have_quotas(t *testing.T) {
	s := newUploads(t, "max_files 2\nmax_size 1KiB\nmax_total 1500", "", "")
	s.uploaded("ada", forRaw, "", make([]byte, 1000))
	if text, isError := s.call("ada", "create_upload", `{"tool":"putRaw","field":"body","size":600}`); !isError || !strings.Contains(text, "too many") {
		t.Errorf("bytes: %s", text)
	}
	s.uploaded("ada", `{"tool":"putRaw","field":"body","size":5}`, "", make([]byte, 5))
	if text, isError := s.call("ada", "create_upload", `{"tool":"putRaw","field":"body","size":5}`); !isError || !strings.Contains(text, "too many") {
		t.Errorf("files: %s", text)
	}
	s.uploaded("bob", forRaw, "", make([]byte, 1000))
}

func TestCreateUpload_bad_arguments(t *testing.T) {
	s := newUploads(t, "", "", "")
	for arguments, word := range map[string]string{
		`{"tool":"none","field":"x"}`:                                     "unknown tool",
		`{"tool":"putRaw","field":"X_Trace"}`:                             "no argument of this name that is a file",
		`{"tool":"addPhoto","field":"photo","type":"text/html"}`:          "image/png",
		`{"tool":"putRaw","field":"body","size":99999999999}`:             "limit",
		`{"tool":"putRaw","field":"body","sha256":"x"}`:                   "sha256",
		`{"tool":"addNote","field":"parts","type":"image/png","size":10}`: "text/plain",
	} {
		if text, isError := s.call("ada", "create_upload", arguments); !isError || !strings.Contains(text, word) {
			t.Errorf("%s: %s, want %q", arguments, text, word)
		}
	}
}

// TestUploads_are_described_not_shown checks that rules, reviewers, records and kept calls have the description of a file, that inspectors
// see its text, and that a review is about these bytes.
func TestUploads_are_described_not_shown(t *testing.T) {
	var inspected atomic.Pointer[string]
	var refuses atomic.Bool
	inspector := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := string(body)
		inspected.Store(&text)
		_ = json.NewEncoder(w).Encode(map[string]any{"decision": map[bool]string{true: "reject", false: "pass"}[refuses.Load() && strings.Contains(text, "topsecret")]})
	})
	s := &uploadSite{sitetest.NewSite(t), new(fileAPI)}
	s.Write("photos.yaml", photos)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", `
  put-raw:
    user_identity: false
    input_restriction: {assertion: 'recent["put-raw"].inputs.body.size < 100 && recent["put-raw"].inputs.body.type == "text/plain"', require_review: eve}
`))
	s.start("", `allow "arguments.body.size != 7"`+"\ninspect webhook http://"+inspector+"/ {\nsecret 0123456789abcdef0123456789abcdef\nphases arguments\n}",
		"agents_console\noagent DIR/agent.yaml {\nreview_wait off\nreviews /reviews\n}")
	content := []byte("a topsecret text")
	handle := s.uploaded("ada", `{"tool":"putRaw","field":"body","name":"a.txt"}`, "text/plain", content)
	call := `{"body":` + handle + `,"X_Trace":"t"}`
	refuses.Store(true)
	if text, isError := s.call("ada", "putRaw", call); !isError || !strings.Contains(text, "because of the file upl_") {
		t.Errorf("a file that an inspector refuses: %s", text)
	}
	broken := s.uploaded("ada", forRaw, "text/plain", append([]byte{0xff}, content...))
	if text, isError := s.call("ada", "putRaw", `{"body":`+broken+`}`); !isError || !strings.Contains(text, "because of the file upl_") {
		t.Errorf("a text that is not UTF-8: %s", text)
	}
	refuses.Store(false)
	if text, isError := s.call("ada", "putRaw", call); !isError || !strings.Contains(text, "review") {
		t.Fatalf("before the review: %s", text)
	}
	description := fmt.Sprintf(`"body":{"name":"a.txt","type":"text/plain","size":%d,"sha256":"%s"}`, len(content), hexSum(content))
	if seen := *inspected.Load(); !strings.Contains(seen, hexSum(content)) || strings.Contains(seen, "upl_") {
		t.Errorf("the inspector saw %s", seen)
	}
	reviews := s.Request("GET", "/reviews", "", "X-Test-User", "eve").Body
	if compact(reviews, t); !strings.Contains(compact(reviews, t), description) || strings.Contains(reviews, "topsecret") {
		t.Errorf("reviews: %s, want %s", reviews, description)
	}
	sitetest.ReviewsOf(s.Site).DecideAllAs("eve", "approve")
	if text, isError := s.call("ada", "putRaw", call); isError {
		t.Fatalf("after the review: %s", text)
	}
	if body, header := s.api.last(); !bytes.Equal(body, content) || header.Get("X-Trace") != "t" {
		t.Errorf("the API got %q with %v", body, header)
	}
	short := s.uploaded("ada", forRaw, "text/plain", []byte("1234567"))
	if text, isError := s.call("ada", "putRaw", `{"body":`+short+`}`); !isError || !strings.Contains(text, "allow") && !strings.Contains(text, "not allowed") {
		t.Errorf("a file that the rule forbids: %s", text)
	}
	binary := s.uploaded("ada", forRaw, "application/zip", []byte{0, 0xff})
	if text, isError := s.call("ada", "putRaw", `{"body":`+binary+`}`); !isError || !strings.Contains(text, "assertion") && !strings.Contains(text, "restriction") {
		t.Errorf("a file that the agent may not send: %s", text)
	}
	kept := s.View("ada", "/console/api/calls").Body
	if !strings.Contains(kept, hexSum(content)) || strings.Contains(kept, "topsecret") || strings.Contains(kept, s.URL+"/up/") {
		t.Errorf("kept calls: %s", kept)
	}
	data, _ := os.ReadFile(filepath.Join(s.Dir, "caddy.log"))
	if strings.Contains(string(data), "topsecret") || strings.Contains(string(data), s.URL+"/up/") || strings.Contains(string(data), `"uri":"/up/`) {
		t.Error("the log has the content or the URL of an upload")
	}
	if !strings.Contains(string(data), "a file was uploaded") || !strings.Contains(string(data), hexSum(content)) {
		t.Error("the log does not say that a file was uploaded")
	}
}

func compact(text string, t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestLargeResponse_becomes_a_link(t *testing.T) {
	s := newUploads(t, "", "", "")
	text, isError := s.call("ada", "getVideo", `{}`)
	var f struct {
		Name, Type, SHA256, URI string
		Size                    int
	}
	if err := json.Unmarshal([]byte(text), &f); isError || err != nil || f.Name != "film.mp4" {
		t.Fatalf("%s", text)
	}
	if f.Type != "video/mp4" || f.SHA256 != hexSum(video) || f.Size != len(video) {
		t.Errorf("%s", text)
	}
	a := s.send(http.MethodGet, f.URI, "", nil)
	if a.Body != string(video) || !strings.Contains(a.Header.Get("Content-Disposition"), "film.mp4") {
		t.Errorf("%d, %d bytes, %v", a.Status, len(a.Body), a.Header)
	}
	if a := s.send(http.MethodPut, f.URI, "", strings.NewReader("x")); a.Status != http.StatusMethodNotAllowed {
		t.Errorf("an upload to a link: %d", a.Status)
	}
	whole := newUploads(t, "link_above 1MiB", "", "")
	if a := whole.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"getVideo","arguments":{}}}`, nil); !strings.Contains(a.Body, `"blob"`) {
		t.Errorf("below the limit: %.200s", a.Body)
	}
}

// TestUploads_cost_few_tokens measures what a client sends and gets for a file of 5 MB: at about 4 bytes a token.
func TestUploads_cost_few_tokens(t *testing.T) {
	s := newUploads(t, "", "", "")
	content := bytes.Repeat([]byte{1, 2, 3, 4, 5}, 1<<20)
	total := 0
	count := func(tool, arguments string) string {
		message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
		a := s.Post("/mcp", message, map[string]string{"X-Test-User": "ada"})
		total += len(message) + len(a.Body)
		return a.Body
	}
	var m struct {
		Result struct{ Content []struct{ Text string } }
	}
	var c created
	if err := json.Unmarshal([]byte(count("create_upload", `{"tool":"putRaw","field":"body","name":"report.pdf","type":"application/pdf"}`)), &m); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(m.Result.Content[0].Text), &c); err != nil {
		t.Fatal(err)
	}
	contentType, body := form(t, map[string]string{"report.pdf": string(content)})
	if a := s.send(http.MethodPost, c.Descriptor.URL, contentType, body); a.Status != http.StatusCreated {
		t.Fatal(a.Body)
	}
	count("putRaw", `{"body":{"upload":"`+c.Upload+`"}}`)
	if got, _ := s.api.last(); !bytes.Equal(got, content) {
		t.Fatalf("the API got %d bytes", len(got))
	}
	t.Logf("a file of %d bytes costs %d bytes of messages, about %d tokens; as base64 it would cost about %d", len(content), total, total/4, len(content)*4/3/3*2)
	if total/4 > 400 {
		t.Errorf("a file costs about %d tokens, and may cost 400", total/4)
	}
}

// TestUploads_survive_masked_arguments checks that an inspector can change other arguments of a call with a file.
func TestUploads_survive_masked_arguments(t *testing.T) {
	inspector := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		var m struct{ Content map[string]any }
		_ = json.NewDecoder(r.Body).Decode(&m)
		if _, ok := m.Content["X_Trace"]; !ok {
			_, _ = io.WriteString(w, `{"decision":"pass"}`)
			return
		}
		m.Content["X_Trace"] = "masked"
		_ = json.NewEncoder(w).Encode(map[string]any{"decision": "mask", "content": m.Content})
	})
	s := newUploads(t, "", "inspect webhook http://"+inspector+"/ {\nsecret 0123456789abcdef0123456789abcdef\nphases arguments\n}", "")
	if text, isError := s.call("ada", "putRaw", `{"body":`+s.uploaded("ada", forRaw, "", []byte("content"))+`,"X_Trace":"secret"}`); isError {
		t.Fatal(text)
	}
	if body, header := s.api.last(); string(body) != "content" || header.Get("X-Trace") != "masked" {
		t.Errorf("the API got %q with %v", body, header)
	}
}

func TestUploads_config_errors(t *testing.T) {
	s := sitetest.NewSite(t)
	for name, c := range map[string]struct{ global, block, word string }{
		"no directive":   {"uploads https://a.example/u", "respond ok", "agent_uploads"},
		"no option":      {"", "agent_uploads", "uploads"},
		"no path":        {"uploads https://a.example", "agent_uploads", "path"},
		"no host":        {"uploads /u", "agent_uploads", "public URL"},
		"max_size":       {"uploads https://a.example/u {\nmax_size 1GiB\n}", "agent_uploads", "256MiB"},
		"less in total":  {"uploads https://a.example/u {\nmax_total 1MiB\n}", "agent_uploads", "max_total"},
		"no placeholder": {"uploads {env.UPLOADS_NOT_SET}", "agent_uploads", "UPLOADS_NOT_SET"},
	} {
		if err := s.Load("agents {\n"+c.global+"\n}", c.block); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: error %v, want %q", name, err, c.word)
		}
	}
}

// TestUploads_are_exported_and_erased_with_their_user checks that the data about a user have its uploads.
func TestUploads_are_exported_and_erased_with_their_user(t *testing.T) {
	s := newUploads(t, "", "", "")
	handle := s.uploaded("ada", `{"tool":"putRaw","field":"body","name":"a.bin"}`, "", []byte("content"))
	records, err := site.SectionOf[*stores.Section](caddy.ActiveContext())
	if err != nil {
		t.Fatal(err)
	}
	all, err := records.Users.Export(t.Context(), "ada")
	text := fmt.Sprintf("%+v", all["uploads"])
	if err != nil || !testkit.ContainsAll(text, "a.bin "+hexSum([]byte("content"))) || strings.Contains(text, "upl_") {
		t.Errorf("exported %s, error %v", text, err)
	}
	if counts, err := records.Users.Erase(t.Context(), "ada"); err != nil || counts["uploads"] != 1 {
		t.Errorf("erased %v, error %v", counts, err)
	}
	if text, isError := s.call("ada", "putRaw", `{"body":`+handle+`}`); !isError || !strings.Contains(text, "does not exist") {
		t.Errorf("the handle: %s", text)
	}
}

// TestUploads_limits_behind_references also reads a schema that refers to itself.
func TestUploads_limits_behind_references(t *testing.T) {
	for _, schemas := range []string{"", "schemas defs"} {
		s := newUploads(t, "", schemas, "")
		c := s.create("ada", `{"tool":"addShared","field":"scan"}`)
		if c.MaxSize != 30 || strings.Join(c.Accept, " ") != "image/tiff" {
			t.Errorf("%q: limit %d, types %q", schemas, c.MaxSize, c.Accept)
		}
		if a := s.send(http.MethodPut, c.Descriptor.URL, "image/png", strings.NewReader("x")); a.Status != http.StatusUnsupportedMediaType {
			t.Errorf("%q: another type: %d", schemas, a.Status)
		}
		if a := s.send(http.MethodPut, c.Descriptor.URL, "image/tiff", strings.NewReader("scan")); a.Status != http.StatusCreated {
			t.Fatalf("%q: %d %s", schemas, a.Status, a.Body)
		}
		if text, isError := s.call("ada", "addShared", `{"scan":{"page":{"upload":"`+c.Upload+`"}}}`); isError {
			t.Errorf("%q: %s", schemas, text)
		}
	}
}

// TestUploads_handle_as_text takes a handle that a model gives without its object, or with more members.
func TestUploads_handle_as_text(t *testing.T) {
	s := newUploads(t, "", "", "")
	for _, format := range []string{`{"body":%q}`, `{"body":{"upload":%q,"filename":"a.pdf"}}`} {
		c := s.create("ada", forRaw)
		if a := s.Request("PUT", strings.TrimPrefix(c.Descriptor.URL, s.URL), "content", "Content-Type", "application/pdf"); a.Status != http.StatusCreated {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		if text, isError := s.call("ada", "putRaw", fmt.Sprintf(format, c.Upload)); isError {
			t.Errorf("%s: %s", format, text)
		}
		if got, _ := s.api.last(); string(got) != "content" {
			t.Errorf("%s: the API got %q", format, got)
		}
	}
}

// TestUploads_too_many_downloads makes no call with more files than one may download, and tries no other after the first failure.
func TestUploads_too_many_downloads(t *testing.T) {
	s := newUploads(t, "", "", "")
	file := `{"download_url":"https://127.0.0.1:1/x","file_id":"f"}`
	began := time.Now()
	text, isError := s.call("ada", "putRaw", `{"body":[`+strings.Repeat(file+",", 5000)+file+`]}`)
	if !isError || !strings.Contains(text, "cannot be downloaded") || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: %s", time.Since(began), text)
	}
}
