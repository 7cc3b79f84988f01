package files_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }

// photos takes files in three ways: a part of a form, a whole body, and base64 in JSON.
const photos = `openapi: 3.1.0
info: {title: Trips, version: "1"}
paths:
  /photos:
    post:
      operationId: addPhoto
      requestBody:
        required: true
        content:
          multipart/form-data:
            schema: {type: object, required: [photo], properties: {photo: {type: string, format: binary}, title: {type: string}}}
            encoding: {photo: {contentType: "image/png, image/jpeg"}}
      responses: {"200": {description: ok}}
  /raw:
    put:
      operationId: putRaw
      parameters: [{name: X-Trace, in: header, schema: {type: string}}]
      requestBody: {required: true, content: {application/octet-stream: {}}}
      responses: {"200": {description: ok}}
  /notes:
    post:
      operationId: addNote
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [parts]
              properties:
                extra: {type: object}
                parts: {type: array, items: {type: object, properties: {text: {type: string, contentEncoding: base64, contentMediaType: text/plain, maxLength: 40}}}}
      responses: {"200": {description: ok}}
  /shared:
    post:
      operationId: addShared
      requestBody: {required: true, content: {application/json: {schema: {type: object, properties: {scan: {$ref: "#/components/schemas/Scan"}}}}}}
      responses: {"200": {description: ok}}
  /video:
    get: {operationId: getVideo, responses: {"200": {description: ok, content: {video/mp4: {}}}}}
components:
  schemas:
    Scan:
      type: object
      properties: {page: {$ref: "#/components/schemas/Page"}, next: {$ref: "#/components/schemas/Scan"}}
    Page: {type: string, contentEncoding: base64, contentMediaType: image/tiff, maxLength: 40}
`

// video is a response that is too large for a client.
var video = bytes.Repeat([]byte{0, 1, 2, 0xff}, 100<<10)

// fileAPI says which bytes it got.
type fileAPI struct {
	mu     sync.Mutex
	bodies [][]byte
	heads  []http.Header
}

func (a *fileAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.bodies, a.heads = append(a.bodies, body), append(a.heads, r.Header)
	a.mu.Unlock()
	if r.URL.Path == "/video" {
		w.Header().Set("Content-Type", "video/mp4")
		w.Header().Set("Content-Disposition", `attachment; filename="film.mp4"`)
		_, _ = w.Write(video)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"ok":true}`)
}

func (a *fileAPI) last() ([]byte, http.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.bodies) == 0 {
		return nil, nil
	}
	return a.bodies[len(a.bodies)-1], a.heads[len(a.heads)-1]
}

func (a *fileAPI) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.bodies)
}

// uploadSite is a site with uploads.
type uploadSite struct {
	*sitetest.Site
	api *fileAPI
}

// newUploads starts a site. Options are those of uploads, toolset those of the toolset, and after is between the endpoints and the API.
func newUploads(t *testing.T, options, toolset, after string) *uploadSite {
	t.Helper()
	s := &uploadSite{sitetest.NewSite(t), new(fileAPI)}
	s.Write("photos.yaml", photos)
	s.start(options, toolset, after)
	return s
}

func (s *uploadSite) start(options, toolset, after string) {
	s.T.Helper()
	s.Start(fmt.Sprintf("agents {\nstore bolt DIR/store.db\ncalls {\narguments body\nresults\n}\nuploads %s/up {\n%s\n}\ntoolset Trips DIR/photos.yaml {\n%s\n}\n}", s.URL, options, toolset),
		"agent_uploads\nroute {\ntest_user\nmcp Trips\notc Trips\n"+after+"\nreverse_proxy "+sitetest.Upstream(s.T, s.api.ServeHTTP)+"\n}")
}

// call calls a tool over MCP, and returns its text and whether it is an error.
func (s *uploadSite) call(user, tool, arguments string) (text string, isError bool) {
	s.T.Helper()
	a := s.Post("/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments), map[string]string{"X-Test-User": user})
	var m struct {
		Result struct {
			Content []struct{ Text string }
			IsError bool
		}
		Error any
	}
	if err := json.Unmarshal([]byte(a.Body), &m); err != nil || m.Error != nil || len(m.Result.Content) == 0 {
		s.T.Fatalf("%s %s: %d %s", tool, arguments, a.Status, a.Body)
	}
	return m.Result.Content[0].Text, m.Result.IsError
}

// created is the result of create_upload.
type created struct {
	Upload     string
	Descriptor struct{ Transport, Method, URL, ExpiresAt string }
	MaxSize    int64
	Accept     []string
	Curl, Next string
}

func (s *uploadSite) create(user, arguments string) (c created) {
	s.T.Helper()
	text, isError := s.call(user, "create_upload", arguments)
	if isError || json.Unmarshal([]byte(text), &c) != nil || !strings.HasPrefix(c.Upload, "upl_") {
		s.T.Fatalf("create_upload %s: %s", arguments, text)
	}
	return c
}

// send sends a request to a URL.
func (s *uploadSite) send(method, to, contentType string, body io.Reader) sitetest.Response {
	s.T.Helper()
	r, err := http.NewRequest(method, to, body)
	if err != nil {
		s.T.Fatal(err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return s.Do(r)
}

// uploaded returns the handle of an uploaded file.
func (s *uploadSite) uploaded(user, arguments, contentType string, content []byte) string {
	s.T.Helper()
	c := s.create(user, arguments)
	if a := s.send(http.MethodPut, c.Descriptor.URL, contentType, bytes.NewReader(content)); a.Status != http.StatusCreated {
		s.T.Fatalf("upload: %d %s", a.Status, a.Body)
	}
	return fmt.Sprintf(`{"upload":%q}`, c.Upload)
}

func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

const forPhoto, forRaw, forNote = `{"tool":"addPhoto","field":"photo"}`, `{"tool":"putRaw","field":"body"}`, `{"tool":"addNote","field":"parts"}`

func TestUploads_reach_the_API_unchanged(t *testing.T) {
	s := newUploads(t, "", "", "")
	content := bytes.Repeat([]byte("\x89PNG\x00\r\n"), 200<<10) // more than one chunk
	t.Run("form", func(t *testing.T) {
		s.call("ada", "addPhoto", `{"title":"sea","photo":`+s.uploaded("ada", `{"tool":"addPhoto","field":"photo","name":"../sea.png"}`, "image/png", content)+`}`)
		body, header := s.api.last()
		_, boundary, _ := strings.Cut(header.Get("Content-Type"), "boundary=")
		form, err := multipart.NewReader(bytes.NewReader(body), boundary).ReadForm(16 << 20)
		if err != nil || len(form.File["photo"]) != 1 {
			t.Fatalf("%v: %s", err, header)
		}
		part := form.File["photo"][0]
		file, _ := part.Open()
		got, _ := io.ReadAll(file)
		if !bytes.Equal(got, content) || part.Filename != "sea.png" || part.Header.Get("Content-Type") != "image/png" {
			t.Errorf("%d bytes, name %q, header %v", len(got), part.Filename, part.Header)
		}
		if form.Value["title"][0] != "sea" {
			t.Errorf("title %v", form.Value)
		}
	})
	t.Run("body", func(t *testing.T) {
		s.call("ada", "putRaw", `{"body":`+s.uploaded("ada", forRaw, "application/pdf", content)+`}`)
		if body, header := s.api.last(); !bytes.Equal(body, content) || header.Get("Content-Type") != "application/pdf" {
			t.Errorf("%d bytes, header %v", len(body), header)
		}
	})
	t.Run("base64", func(t *testing.T) {
		s.call("ada", "addNote", `{"parts":[{"text":`+s.uploaded("ada", forNote, "text/plain", []byte("hello"))+`},{"text":"d29ybGQ="}]}`)
		if body, _ := s.api.last(); string(body) != `{"parts":[{"text":"aGVsbG8="},{"text":"d29ybGQ="}]}` {
			t.Errorf("%s", body)
		}
	})
	t.Run("OTC", func(t *testing.T) {
		handle := s.uploaded("", forRaw, "", content)
		answer := s.OTC("putRaw", `{"body":`+handle+`}`)
		if body, _ := s.api.last(); !bytes.Equal(body, content) {
			t.Errorf("%d bytes, response %s", len(body), answer)
		}
	})
	t.Run("browser", func(t *testing.T) {
		c := s.create("ada", forPhoto)
		page := s.send(http.MethodGet, c.Descriptor.URL, "", nil)
		if policy := page.Header.Get("Content-Security-Policy"); page.Status != http.StatusOK || !strings.Contains(page.Body, `type="file"`) || !strings.Contains(policy, "default-src 'none'") {
			t.Errorf("%d %s %s", page.Status, page.Body, policy)
		}
		if page.Header.Get("Referrer-Policy") != "no-referrer" || page.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("header %v", page.Header)
		}
		contentType, body := form(t, map[string]string{"me.png": "image"})
		if a := s.send(http.MethodPost, c.Descriptor.URL, contentType, body); a.Status != http.StatusCreated {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		if text, isError := s.call("ada", "addPhoto", `{"photo":{"upload":"`+c.Upload+`"}}`); isError {
			t.Error(text)
		}
		if body, _ := s.api.last(); !bytes.Contains(body, []byte(`filename="me.png"`)) {
			t.Errorf("%s", body)
		}
		if a := s.send(http.MethodGet, c.Descriptor.URL, "", nil); a.Status != http.StatusGone || strings.Contains(a.Body, "image") {
			t.Errorf("after the upload: %d %s", a.Status, a.Body)
		}
	})
}

// TestUploads_count_as_bodies calls with a file while the requests in progress have used the memory for bodies.
func TestUploads_count_as_bodies(t *testing.T) {
	s := &uploadSite{sitetest.NewSite(t), new(fileAPI)}
	s.Write("photos.yaml", photos)
	entered, leave := make(chan bool), make(chan bool)
	api := sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Trace") == "wait" {
			entered <- true
			<-leave
		}
		s.api.ServeHTTP(w, r)
	})
	s.Start(fmt.Sprintf("agents {\nstore bolt DIR/store.db\nmax_bodies 1MiB\nuploads %s/up\ntoolset Trips DIR/photos.yaml\n}", s.URL),
		"agent_uploads\nroute {\ntest_user\nmcp Trips\nreverse_proxy "+api+"\n}")
	first, second := s.uploaded("ada", forRaw, "", make([]byte, 700<<10)), s.uploaded("bob", forRaw, "", make([]byte, 700<<10))
	ended := make(chan bool)
	go func() {
		defer close(ended)
		if text, isError := s.call("ada", "putRaw", `{"body":`+first+`,"X_Trace":"wait"}`); isError {
			t.Errorf("the first call: %s", text)
		}
	}()
	<-entered
	if text, isError := s.call("bob", "putRaw", `{"body":`+second+`}`); !isError || !strings.Contains(text, "memory") || s.api.count() != 0 {
		t.Errorf("beside another call: %s", text)
	}
	close(leave)
	<-ended
	sitetest.Eventually(t, "room for the file", func() bool {
		_, isError := s.call("bob", "putRaw", `{"body":`+second+`}`)
		return !isError
	})
}

// TestUploads_of_several_toolsets at one endpoint, whose calls are prepared before the toolset is known: OTC, and MCP with a key.
func TestUploads_of_several_toolsets(t *testing.T) {
	s := &uploadSite{sitetest.NewSite(t), new(fileAPI)}
	s.Write("photos.yaml", photos)
	s.Write("trips.yaml", sitetest.Trips)
	s.Start(fmt.Sprintf("agents {\nstore bolt DIR/store.db\nuploads %s/up\ntoolset Trips DIR/photos.yaml\ntoolset Others DIR/trips.yaml\n}", s.URL),
		"agent_uploads\nroute {\ntest_user\nmcp Trips Others\notc Trips Others\nreverse_proxy "+sitetest.Upstream(t, s.api.ServeHTTP)+"\n}")
	for name, call := range map[string]func(handle string) string{
		"MCP": func(handle string) string {
			text, _ := s.call("", "putRaw", `{"body":`+handle+`}`)
			return text
		},
		"MCP with a key": func(handle string) string {
			return s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"putRaw","arguments":{"body":`+handle+`}}}`, map[string]string{"Idempotency-Key": "k1"}).Body
		},
		"OTC": func(handle string) string { return fmt.Sprint(s.OTC("putRaw", `{"body":`+handle+`}`)) },
	} {
		content := []byte("content for " + name)
		answer := call(s.uploaded("", forRaw, "", content))
		if body, _ := s.api.last(); !bytes.Equal(body, content) {
			t.Errorf("%s: the API got %q; response %s", name, body, answer)
		}
	}
}

// form returns a multipart form with files, by name.
func form(t *testing.T, parts map[string]string) (contentType string, body io.Reader) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, content := range parts {
		part, err := w.CreatePart(map[string][]string{"Content-Disposition": {`form-data; name="file"; filename="` + name + `"`}, "Content-Type": {"image/png"}})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, content)
	}
	_ = w.Close()
	return w.FormDataContentType(), &b
}

func TestUploads_are_listed(t *testing.T) {
	s := newUploads(t, "", "", "")
	list := s.ToolList()
	if !testkit.ContainsAll(list, `"create_upload" "^upl_" invent paste`) {
		t.Errorf("%s", list)
	}
	s.Write("photos.yaml", sitetest.Trips)
	s.start("", "", "")
	if list := s.ToolList(); strings.Contains(list, "create_upload") {
		t.Errorf("no tool takes a file: %s", list)
	}
	if off := sitetest.Run(t, "", "mcp TRIPS\nreverse_proxy 127.0.0.1:1"); strings.Contains(off.ToolList(), "upl_") {
		t.Error("uploads are off")
	}
}
