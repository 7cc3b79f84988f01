// Package samples reads testdata/stored: what versions of the program have stored, one file for each version of a format.
package samples

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

// Folder has the samples.
const Folder = "testdata/stored"

var writeNew = flag.Bool("write-samples", false, "write samples that do not exist")

// sample is a file of Folder.
type sample struct {
	Records []record       `json:"records"`
	Read    jsontext.Value `json:"read"` // what the reader returned
}

// record is a record of the store.
type record struct {
	Key     string   `json:"key"`
	Value   []byte   `json:"value"`
	Entries [][]byte `json:"entries,omitempty"`
}

// Store puts the records of the sample NAME.json into a new store, and compares what read returns as JSON. Write writes the records
// of a sample that does not exist.
func Store(t *testing.T, name string, write func(store.Store) error, read func(store.Store) (any, error)) {
	t.Helper()
	data := File(t, name+".json", func() ([]byte, error) { return written(t, write, read), nil })
	var s sample
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	st := Open(t)
	for _, r := range s.Records {
		if err := st.Put(t.Context(), r.Key, store.Change{Value: r.Value, Entries: r.Entries, TTL: store.MaxTTL}); err != nil {
			t.Fatal(err)
		}
	}
	encoded := result(t, st, read)
	var got, want any
	if err := errors.Join(json.Unmarshal(encoded, &got), json.Unmarshal(s.Read, &want)); err != nil {
		t.Fatal(err)
	}
	if !has(got, want) {
		t.Errorf("the stored sample %s reads as\n%s\nwant\n%s", name, encoded, s.Read)
	}
}

// has reports whether got equals want, apart from members that only got has: a later version may have added them.
func has(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, isObject := got.(map[string]any)
		for name := range want {
			isObject = isObject && has(got[name], want[name])
		}
		return isObject
	case []any:
		got, isArray := got.([]any)
		return isArray && slices.EqualFunc(got, want, has)
	}
	return got == want
}

// File returns a sample. If it does not exist, the flag -write-samples makes it of what write returns. It is never replaced.
func File(t *testing.T, name string, write func() ([]byte, error)) []byte {
	t.Helper()
	root, err := testkit.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, Folder, name)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && *writeNew {
		if data, err = write(); err == nil {
			err = os.WriteFile(file, data, 0o644) //nolint:gosec // a file of the repository
		}
	}
	if err != nil {
		t.Fatalf("%v; to write a sample of a new format, run the test with -write-samples", err)
	}
	return data
}

// written returns a new sample.
func written(t *testing.T, write func(store.Store) error, read func(store.Store) (any, error)) []byte {
	t.Helper()
	st := Open(t)
	if err := write(st); err != nil {
		t.Fatal(err)
	}
	var s sample
	err := store.Scan(t.Context(), st, "", func(key string, r store.Record) error {
		entries, err := st.Read(t.Context(), key, 0, store.MaxRead)
		s.Records = append(s.Records, record{key, r.Value, entries})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Read = result(t, st, read)
	data, err := json.Marshal(s, jsontext.WithIndent("\t"))
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// Open returns a new store.
func Open(t *testing.T) store.Store {
	t.Helper()
	st, err := embedded.Open(filepath.Join(t.TempDir(), "store.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func result(t *testing.T, st store.Store, read func(store.Store) (any, error)) jsontext.Value {
	t.Helper()
	v, err := read(st)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(v)
	if value := jsontext.Value(encoded); err == nil {
		err = value.Canonicalize()
		encoded = value
	}
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}
