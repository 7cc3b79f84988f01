package integration

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// upstream is an API that misbehaves on demand: each of its paths is a way to
// answer that a gateway has to bear.
type upstream struct {
	*httptest.Server
	sent  atomic.Int64 // bytes of the endless answer that were taken from it
	ended atomic.Int64 // how many endless answers have come to an end
}

// behaviours are the paths of upstream, and the operationIds of its document.
var behaviours = map[string]func(u *upstream, w http.ResponseWriter, r *http.Request){
	"fine": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, `{"fine":true}`)
	},
	"slow": func(_ *upstream, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(waitTimeout):
		}
	},
	"trickle": func(_ *upstream, w http.ResponseWriter, r *http.Request) {
		writeJSON(w, `{"never":`)
		http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(waitTimeout):
		}
	},
	"broken_off": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		writeJSON(w, `{"half":`)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	},
	"hung_up": func(_ *upstream, _ http.ResponseWriter, _ *http.Request) {
		panic(http.ErrAbortHandler)
	},
	"html": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, "<!doctype html><title>Please log in</title>")
	},
	"not_json": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, `{"cut":`)
	},
	"not_utf8": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, "{\"name\":\"\xff\xfe\"}")
	},
	"deep": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000))
	},
	"large": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, `"`+strings.Repeat("x", 200<<10)+`"`)
	},
	"endless": func(u *upstream, w http.ResponseWriter, _ *http.Request) {
		u.stream(w)
	},
	"announced": func(u *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(endless))
		u.stream(w)
	},
	"gzip": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		writeJSON(zipped{w, z}, `{"zipped":true}`)
	},
	"gzip_bomb": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		writeJSON(w, bomb())
	},
	"gzip_garbage": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		writeJSON(w, `{"zipped":false}`)
	},
	"redirect": func(_ *upstream, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/secret", http.StatusFound)
	},
	"no_content": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	},
	"text": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		io.WriteString(w, "plain \"words\"\n")
	},
	"image": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		w.Write([]byte("\x89PNG\r\n\x1a\n"))
	},
	"wait": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	},
	"failing": func(_ *upstream, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, `{"title":"Disk full","detail":"no space left"}`)
	},
}

// endless is how long the endless answer claims to be, in bytes.
const endless = 2 << 30

// bomb is 50 KB that inflate to 50 MB.
var bomb = sync.OnceValue(func() string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	io.CopyN(z, zeros{}, 50<<20)
	z.Close()
	return b.String()
})

func writeJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, body)
}

// stream sends 2 GiB of zeros, or as much of it as is taken.
func (u *upstream) stream(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/octet-stream")
	n, _ := io.CopyN(w, zeros{}, endless)
	u.sent.Add(n)
	u.ended.Add(1)
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// zipped is a ResponseWriter whose body goes through gzip.
type zipped struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (z zipped) Write(p []byte) (int, error) { return z.z.Write(p) }

func startUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	bomb() // takes long, and no call is to wait for it
	mux := http.NewServeMux()
	for name, behave := range behaviours {
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, r *http.Request) { behave(u, w, r) })
	}
	u.Server = httptest.NewServer(mux)
	t.Cleanup(u.Close)
	return u
}

// document describes an API that has an operation for each of the names.
func document(names ...string) string {
	var b bytes.Buffer
	b.WriteString(`{"openapi":"3.1.0","info":{"title":"Faults","version":"1.0.0"},"paths":{`)
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `%q:{"get":{"operationId":%q,"description":"Answers in the way its name says.",`+
			`"responses":{"200":{"description":"An answer.","content":{"application/json":{"schema":{}}}}}}}`, "/"+name, name)
	}
	b.WriteString(`}}`)
	return b.String()
}

// startFaults runs a gateway in front of upstream, with a tight limit of size and
// time enough. One more operation, "down", leads to a port on which nothing
// listens. It returns the path of the document too.
func startFaults(t *testing.T) (g *gateway, u *upstream, path string) {
	t.Helper()
	return startFaultsWithin(t, "30s")
}

// startFaultsWithin is startFaults whose calls may take so long.
func startFaultsWithin(t *testing.T, timeout string) (g *gateway, u *upstream, path string) {
	t.Helper()
	u = startUpstream(t)
	names := []string{"down"}
	for name := range behaviours {
		names = append(names, name)
	}
	dir := t.TempDir()
	path = filepath.Join(dir, "faults.json")
	writeFile(t, path, document(names...))

	site := freeAddress(t)
	g = startGateway(t, dir, site, fmt.Sprintf(`{
	admin off
	agents {
		toolset faults {
			openapi faults.json
			timeout %s
			max_response 100KiB
		}
	}
}
http://%s {
	mcp /mcp faults
	otc /otc faults
	reverse_proxy /down 127.0.0.1:1
	reverse_proxy %s
}
`, timeout, site, strings.TrimPrefix(u.URL, "http://")))
	return g, u, path
}

// residentMemory returns the memory of a process in bytes; false where the
// system does not tell.
func residentMemory(pid int) (int64, bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10, true
		}
	}
	return 0, false
}
