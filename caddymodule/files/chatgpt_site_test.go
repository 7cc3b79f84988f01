package files_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	filesmodule "github.com/fairwayhq/fairway/caddymodule/files"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

const secretPart = "sig=Yx8Secret"

// newHost returns the address of a server with files of ChatGPT, which a site trusts.
func (s *uploadSite) newHost() string {
	host := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a.png":
			w.Header().Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, "image")
		case "/large":
			_, _ = w.Write(make([]byte, 2<<20))
		case "/redirect":
			http.Redirect(w, r, "/a.png?"+r.URL.RawQuery, http.StatusFound)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	s.T.Cleanup(host.Close)
	section, err := site.SectionOf[*filesmodule.Section](caddy.ActiveContext())
	if err != nil {
		s.T.Fatal(err)
	}
	section.FetchBy(host.Client().Transport)
	return host.URL
}

func hostFile(url, more string) string {
	return fmt.Sprintf(`{"download_url":"%s?%s","file_id":"file_1"%s}`, url, secretPart, more)
}

// TestChatGPT_file_reaches_the_API checks that the file is fetched, and that no log and no record has its URL.
func TestChatGPT_file_reaches_the_API(t *testing.T) {
	s := newUploads(t, "", "", "")
	host := s.newHost()
	if text, isError := s.call("ada", "addPhoto", `{"photo":`+hostFile(host+"/a.png", `,"file_name":"../me.png"`)+`}`); isError {
		t.Fatal(text)
	}
	body, _ := s.api.last()
	if !bytes.Contains(body, []byte(`filename="me.png"`)) || !bytes.Contains(body, []byte("image/png\r\n\r\nimage\r\n")) {
		t.Errorf("the API got %s", body)
	}
	if text, isError := s.call("ada", "putRaw", `{"body":`+hostFile(host+"/a.png", `,"mime_type":"application/pdf"`)+`}`); isError {
		t.Fatal(text)
	}
	if body, header := s.api.last(); string(body) != "image" || header.Get("Content-Type") != "application/pdf" {
		t.Errorf("the API got %s, %v", body, header)
	}
	s.call("ada", "putRaw", `{"body":`+hostFile(host+"/missing", "")+`}`)
	s.call("ada", "putRaw", `{"body":`+hostFile(host+"/a.png", "")+`,"unknown":1}`)
	s.wantNoSecret(t)
}

// wantNoSecret stops the site, and checks that its files do not have the URL of a file.
func (s *uploadSite) wantNoSecret(t *testing.T) {
	t.Helper()
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"store.db", "caddy.log"} {
		data, err := os.ReadFile(s.Dir + "/" + name)
		if err != nil || len(data) == 0 {
			t.Errorf("%s: %d bytes, error %v", name, len(data), err)
		}
		if name == "store.db" && !bytes.Contains(data, []byte("me.png")) {
			t.Error("the store does not have the call as plain text")
		}
		if bytes.Contains(data, []byte(secretPart)) {
			t.Errorf("%s has the URL of a file", name)
		}
	}
}

func TestChatGPT_file_that_cannot_be_taken(t *testing.T) {
	s := newUploads(t, "max_size 1MiB", "", "")
	host := s.newHost()
	for name, c := range map[string]struct{ tool, argument, url, more, word string }{
		"missing":       {"putRaw", "body", host + "/missing", "", "downloaded"},
		"redirect":      {"putRaw", "body", host + "/redirect", "", "redirects"},
		"too large":     {"putRaw", "body", host + "/large", "", "max_size"},
		"http":          {"putRaw", "body", strings.Replace(host, "https", "http", 1) + "/a.png", "", "https"},
		"no URL":        {"putRaw", "body", "x", "", "https"},
		"another type":  {"addPhoto", "photo", host + "/a.png", `,"mime_type":"text/html"`, "image/jpeg"},
		"not in a file": {"addNote", "parts", host + "/a.png", "", "text/plain"},
	} {
		argument := hostFile(c.url, c.more)
		if c.argument == "parts" {
			argument = `[{"text":` + argument + `}]`
			c.word = "parts"
		}
		text, isError := s.call("ada", c.tool, `{"`+c.argument+`":`+argument+`}`)
		if !isError || !strings.Contains(text, c.word) || strings.Contains(text, "Secret") {
			t.Errorf("%s: %s, want %q", name, text, c.word)
		}
	}
	if n := s.api.count(); n != 0 {
		t.Errorf("the API was called %d times", n)
	}
}

func TestChatGPT_file_at_a_private_address_is_refused(t *testing.T) {
	s := newUploads(t, "", "", "")
	reached := false
	host := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer host.Close()
	if text, isError := s.call("ada", "putRaw", `{"body":`+hostFile(host.URL, "")+`}`); !isError || !strings.Contains(text, "public") || reached {
		t.Errorf("reached %t: %s", reached, text)
	}
}

func TestChatGPT_finds_top_level_files(t *testing.T) {
	s := newUploads(t, "", "", "")
	list := s.Post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, map[string]string{"Mcp-Protocol-Version": "2025-11-25"}).Body
	var m struct {
		Result struct {
			Tools []struct {
				Name string
				Meta map[string]any `json:"_meta"`
			}
		}
	}
	if err := json.Unmarshal([]byte(list), &m); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, tool := range m.Result.Tools {
		if params := tool.Meta["openai/fileParams"]; params != nil {
			got[tool.Name] = fmt.Sprint(params)
		}
	}
	if len(got) != 2 || got["addPhoto"] != "[photo]" || got["putRaw"] != "[body]" {
		t.Errorf("got %v: %s", got, list)
	}
	if off := sitetest.Run(t, "", "mcp TRIPS\nreverse_proxy 127.0.0.1:1"); strings.Contains(off.ToolList(), "fileParams") {
		t.Error("uploads are off")
	}
}
