package files_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// authorized is the response of files/authorizeUpload.
type authorized struct {
	Result struct {
		File struct {
			URI, Name, MimeType string
			Size                int
		}
		Upload struct {
			Transport, Method, URL, ExpiresAt string
			Headers                           map[string]string
		}
	}
	Error struct {
		Code int
		Data map[string]any
	}
}

func (s *uploadSite) authorize(params string) (a authorized) {
	s.T.Helper()
	got := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"files/authorizeUpload","params":`+params+`}`, map[string]string{"X-Test-User": "ada"})
	if err := json.Unmarshal([]byte(got.Body), &a); err != nil {
		s.T.Fatalf("%d %s", got.Status, got.Body)
	}
	return a
}

func TestAuthorizeUpload_returns_a_file_that_tools_take(t *testing.T) {
	s := newUploads(t, "", "", "")
	sum, _ := hex.DecodeString(hexSum([]byte("hello")))
	digest := fmt.Sprintf(`"digest":{"algorithm":"sha-256","value":%q}`, base64.RawURLEncoding.EncodeToString(sum))
	a := s.authorize(`{"name":"../a.txt","mimeType":"text/plain","size":5,` + digest + `}`).Result
	if a.File.Name != "a.txt" || a.File.MimeType != "text/plain" || !strings.HasPrefix(a.File.URI, "mcp-file://127.0.0.1:") {
		t.Errorf("file %+v", a.File)
	}
	if a.Upload.Transport != "https" || a.Upload.Headers["Content-Type"] != "text/plain" || a.Upload.ExpiresAt == "" {
		t.Errorf("upload %+v", a.Upload)
	}
	if text, isError := s.call("ada", "putRaw", `{"body":"`+a.File.URI+`"}`); !isError || !strings.Contains(text, "nothing was uploaded") {
		t.Errorf("before the upload: %s", text)
	}
	if got := s.send(a.Upload.Method, a.Upload.URL, "text/plain", strings.NewReader("hellO")); got.Status != http.StatusBadRequest {
		t.Errorf("another content: %d %s", got.Status, got.Body)
	}
	a = s.authorize(`{"name":"a.txt","mimeType":"text/plain","size":5,` + digest + `}`).Result
	if got := s.send(a.Upload.Method, a.Upload.URL, "text/plain", strings.NewReader("hello")); got.Status != http.StatusCreated {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if text, isError := s.call("bob", "putRaw", `{"body":"`+a.File.URI+`"}`); !isError || !strings.Contains(text, "does not exist") {
		t.Errorf("another user: %s", text)
	}
	if text, isError := s.call("ada", "addNote", `{"parts":[{"text":"`+a.File.URI+`"}]}`); isError {
		t.Fatal(text)
	}
	if body, _ := s.api.last(); string(body) != `{"parts":[{"text":"aGVsbG8="}]}` {
		t.Errorf("%s", body)
	}
	s.call("ada", "putRaw", `{"X_Trace":"`+a.File.URI+`","body":{"data":"aGVsbG8="}}`)
	if _, header := s.api.last(); header.Get("X-Trace") != a.File.URI {
		t.Errorf("an argument that takes no file: %v", header)
	}
}

func TestAuthorizeUpload_refuses_what_no_tool_takes(t *testing.T) {
	s := newUploads(t, "", "", "")
	photo := strings.Replace(photos[:strings.Index(photos, "  /raw:")], "photo: {type: string, format: binary}", "photo: {type: string, format: binary, maxLength: 1000}", 1)
	s.Write("photos.yaml", photo)
	s.start("max_files 1", "", "")
	for _, c := range []struct {
		params string
		code   int
		reason string
		data   string
	}{
		{`{"name":"a","mimeType":"image/png","size":2000}`, -32602, "maxSizeExceeded", `"actualSize":2000,"maxSize":1000`},
		{`{"name":"a","mimeType":"text/html","size":5}`, -32602, "mimeTypeNotAccepted", `"accept":["image/jpeg","image/png"]`},
		{`{"name":"a","size":5}`, -32602, "mimeTypeNotAccepted", ""},
		{`{"name":"a","mimeType":"image/png"}`, -32602, "invalidSize", ""},
		{`{"name":"a","mimeType":"image/png","size":-1}`, -32602, "invalidSize", ""},
		{`{"name":"a","mimeType":"image/png","size":"5"}`, -32602, "invalidSize", ""},
		{`{"name":1,"mimeType":"image/png","size":5}`, -32602, "invalidSize", ""},
		{`{"mimeType":"image/png","size":5,"digest":{"algorithm":"md5","value":"AAAA"}}`, -32602, "invalidDigest", ""},
		{`{"mimeType":"image/png","size":5,"digest":{"algorithm":"sha-256","value":"AAAA"}}`, -32602, "invalidDigest", ""},
		{`{"mimeType":"image/png","size":5,"digest":{"algorithm":"sha-256","value":"="}}`, -32602, "invalidDigest", ""},
	} {
		a := s.authorize(c.params).Error
		data, _ := json.Marshal(a.Data)
		if a.Code != c.code || a.Data["reason"] != c.reason || !strings.Contains(string(data), c.data) {
			t.Errorf("%s: %+v", c.params, a)
		}
	}
	if a := s.authorize(`{"mimeType":"image/png","size":5}`); a.Error.Code != 0 {
		t.Errorf("%+v", a.Error)
	}
	if a := s.authorize(`{"mimeType":"image/png","size":5}`).Error; a.Code != -32603 || a.Data["reason"] != "storeFull" {
		t.Errorf("the second of one file: %+v", a)
	}
	s.Write("photos.yaml", sitetest.Trips)
	s.start("", "", "")
	if a := s.authorize(`{"mimeType":"image/png","size":5}`).Error; a.Data["reason"] != "mimeTypeNotAccepted" {
		t.Errorf("no tool takes files: %+v", a)
	}
}

func TestAuthorizeUpload_is_a_capability(t *testing.T) {
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	if a := newUploads(t, "", "", "").Post("/mcp", initialize, nil); !strings.Contains(a.Body, `"files":{}`) || strings.Contains(a.Body, `"":`) {
		t.Errorf("%s", a.Body)
	}
	off := sitetest.Run(t, "", "mcp TRIPS\nreverse_proxy 127.0.0.1:1")
	if a := off.Post("/mcp", initialize, nil); strings.Contains(a.Body, `"files"`) {
		t.Errorf("uploads are off: %s", a.Body)
	}
	if a := off.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"files/authorizeUpload","params":{}}`, nil); !strings.Contains(a.Body, "-32601") {
		t.Errorf("uploads are off: %s", a.Body)
	}
}
