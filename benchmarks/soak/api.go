package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
)

// writeDocuments returns the paths of five documents, and how many of them are real: those in a folder beside the
// checkout. The others are generated.
func writeDocuments(dir string) (paths []string, realOnes int, err error) {
	for _, name := range []string{"museum-3.1.yaml", "train-travel-3.1.yaml", "xero-files.json", "twilio-messaging-v1.json", "slack-web-v2.json"} {
		content, err := unpack(filepath.Join("..", "shared", "openapi", name+".gz"))
		if errors.Is(err, os.ErrNotExist) {
			content, name, err = generate(len(paths)), name+".json", nil
		} else {
			realOnes++
		}
		if err != nil {
			return nil, 0, err
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, 0, err
		}
		paths = append(paths, path)
	}
	return paths, realOnes, nil
}

func unpack(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, 64<<20))
}

// generate returns a document of 200 operations.
func generate(n int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"openapi":"3.1.0","info":{"title":"Generated %d","version":"1"},"paths":{`, n)
	for i := range 200 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"/doc%d/resource%d/{id}":{"get":{"operationId":"get_%d_%d","description":"Reads resource %d.","parameters":[`+
			`{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],"responses":{"200":{"description":"It."}}}}`, n, i, n, i, i)
	}
	b.WriteString("}}")
	return b.Bytes()
}

// api is the API behind the nodes. It counts what it creates, by name.
type api struct {
	mux     *http.ServeMux
	mu      sync.Mutex
	counts  map[string]int
	failing int
}

func newAPI() *api {
	a := &api{mux: http.NewServeMux(), counts: make(map[string]int)}
	create := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var thing struct{ Name string }
			if err := json.NewDecoder(r.Body).Decode(&thing); err != nil {
				http.Error(w, "no JSON", http.StatusBadRequest)
				return
			}
			a.mu.Lock()
			a.counts[thing.Name]++
			a.mu.Unlock()
			if status == http.StatusAccepted {
				w.Header().Set("Location", "/jobs/"+thing.Name)
			}
			respondJSON(w, status, fmt.Sprintf(`{"name":%q}`, thing.Name))
		}
	}
	a.mux.HandleFunc("POST /things", create(http.StatusCreated))
	a.mux.HandleFunc("POST /orders", create(http.StatusOK))
	a.mux.HandleFunc("POST /guarded", create(http.StatusOK))
	a.mux.HandleFunc("POST /jobs", create(http.StatusAccepted))
	a.mux.HandleFunc("GET /jobs/{name}", func(w http.ResponseWriter, r *http.Request) {
		respondJSON(w, http.StatusOK, fmt.Sprintf(`{"done":%q}`, r.PathValue("name")))
	})
	a.mux.HandleFunc("GET /things/{name}", func(w http.ResponseWriter, r *http.Request) {
		respondJSON(w, http.StatusOK, fmt.Sprintf(`{"name":%q}`, r.PathValue("name")))
	})
	a.mux.HandleFunc("GET /slow", func(w http.ResponseWriter, r *http.Request) {
		wait(r.Context(), time.Second)
		respondJSON(w, http.StatusOK, `{}`)
	})
	a.mux.HandleFunc("GET /failing", func(w http.ResponseWriter, _ *http.Request) {
		a.mu.Lock()
		a.failing++
		n := a.failing
		a.mu.Unlock()
		switch n % 4 {
		case 0:
			panic(http.ErrAbortHandler) // the connection ends without a response
		case 1:
			respondJSON(w, http.StatusServiceUnavailable, `{"error":"try later"}`)
		case 2:
			respondJSON(w, http.StatusInternalServerError, `{"error":"broken"}`)
		default:
			respondJSON(w, http.StatusOK, `{}`)
		}
	})
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

func (a *api) count(name string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[name]
}

func respondJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, body)
}

// ordered is the model's last answer if the order was made.
const ordered = "Ordered."

// respond is the model of all agents. It orders what the input names, and then says what came of it.
func respond(r *modelserver.Request) modelserver.Step {
	input, result := "", ""
	for _, m := range r.Messages {
		switch m.Role {
		case "user":
			input, result = m.Text, ""
		case "tool":
			result = m.Text
		}
	}
	switch {
	case result == "":
		return modelserver.Step{Calls: []modelserver.Call{{ID: "c1", Name: "order", Arguments: fmt.Sprintf(`{"name":%q}`, input)}}}
	case strings.Contains(result, fmt.Sprintf(`"name":%q`, input)):
		return modelserver.Step{Text: ordered}
	}
	return modelserver.Step{Text: result}
}
