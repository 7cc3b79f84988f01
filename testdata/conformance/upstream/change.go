package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// handleChanges serves the operations that change what the gateway offers. A file
// whose name is "" cannot be changed.
func handleChanges(mux *http.ServeMux, document, prompts string) error {
	for _, c := range []struct {
		pattern, name, addition string
	}{
		{"POST /changes/tools", document, `
  /dynamic/%[1]d:
    get:
      operationId: dynamic_tool_%[1]d
      description: A tool that is there until the next change.
      responses: {'204': {description: nothing}}
`},
		{"POST /changes/prompts", prompts, `
  - name: dynamic_prompt_%[1]d
    description: A prompt that is there until the next change.
    messages:
      - role: user
        content: {type: text, text: This is change %[1]d.}
`},
	} {
		f := &changingFile{name: c.name, addition: c.addition}
		if c.name != "" {
			var err error
			if f.original, err = os.ReadFile(c.name); err != nil {
				return err
			}
		}
		mux.Handle(c.pattern, f)
	}
	return nil
}

// A changingFile is what it was at first and one addition, another each time, so
// that no two changes undo each other before they are seen.
type changingFile struct {
	name     string
	original []byte
	addition string // for fmt, with the number of the change

	mu      sync.Mutex
	changes int
}

func (f *changingFile) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n, err := f.change()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "This is change %d.", n)
}

func (f *changingFile) change() (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.name == "" {
		return 0, fmt.Errorf("the file to change was not named at start")
	}
	f.changes++
	content := fmt.Appendf(append([]byte(nil), f.original...), f.addition, f.changes)

	// The gateway must never read half of it.
	temporary := filepath.Join(filepath.Dir(f.name), "."+filepath.Base(f.name)+".new")
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return 0, err
	}
	return f.changes, os.Rename(temporary, f.name)
}
