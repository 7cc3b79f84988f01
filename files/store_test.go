package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/internal/stored"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/samples"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/storetest"
)

// nodeOf returns the files of one node.
func nodeOf(st store.Store) *Store {
	return &Store{
		Open:    func(context.Context) (store.Store, error) { return st, nil },
		MaxSize: 8 << 20, MaxFiles: 10, MaxTotal: 64 << 20, Redeem: time.Minute, Keep: time.Hour,
	}
}

var ada = Owner{ID: "ada", Share: "user ada"}

// put uploads a content to a URL, and returns the status.
func (s *Store) put(t *testing.T, secret string, content []byte) int {
	t.Helper()
	w := httptest.NewRecorder()
	if _, _, err := s.Serve(w, httptest.NewRequest(http.MethodPut, "/"+secret, bytes.NewReader(content)), secret); err != nil {
		t.Error(err)
	}
	return w.Code
}

// TestStore_on_several_nodes creates an upload at one node, sends files to its URL at two at once, and reads what was taken at both.
func TestStore_on_several_nodes(t *testing.T) {
	check := func(t *testing.T, first, second *Store) {
		t.Helper()
		ticket, err := first.Create(t.Context(), ada, File{Type: "application/zip"}, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var taken atomic.Int32
		var all sync.WaitGroup
		contents := [6][]byte{}
		for i := range contents {
			contents[i] = bytes.Repeat([]byte{byte(i)}, 3<<20+i)
			all.Go(func() {
				switch status := []*Store{first, second}[i%2].put(t, ticket.Secret, contents[i]); status {
				case http.StatusCreated:
					taken.Add(1)
				case http.StatusGone:
				default:
					t.Errorf("status %d", status)
				}
			})
		}
		all.Wait()
		f, err := second.Describe(t.Context(), ada, ticket.Handle)
		if err != nil || taken.Load() != 1 || f.Type != "application/zip" {
			t.Fatalf("%d files were taken, and %+v is kept, error %v", taken.Load(), f, err)
		}
		for _, node := range []*Store{first, second} {
			content, err := node.Content(t.Context(), ada, ticket.Handle, f, "call")
			if err != nil || !bytes.Equal(content, contents[f.Size-3<<20]) {
				t.Errorf("%d bytes, error %v", len(content), err)
			}
			if _, err := node.Content(t.Context(), ada, ticket.Handle, f, "other"); !errors.Is(err, errClaimed) {
				t.Errorf("another call: %v", err)
			}
			if _, err := node.Describe(t.Context(), Owner{ID: "bob"}, ticket.Handle); !errors.Is(err, errUnknown) {
				t.Errorf("another owner: %v", err)
			}
		}
	}
	t.Run("bolt", func(t *testing.T) {
		st := samples.Open(t)
		check(t, nodeOf(st), nodeOf(st))
	})
	storetest.OnShared(t, func(t *testing.T, server *storetest.SharedServer) {
		check(t, nodeOf(server.Open(t, KeyPrefix)), nodeOf(server.Open(t, KeyPrefix)))
	})
}

// TestStore_detects_changed_content checks that a content is bound to the hash in its description.
func TestStore_detects_changed_content(t *testing.T) {
	s := nodeOf(samples.Open(t))
	ticket, err := s.Create(t.Context(), ada, File{}, Limits{})
	if err != nil || s.put(t, ticket.Secret, []byte("content")) != http.StatusCreated {
		t.Fatal(err)
	}
	f, err := s.Describe(t.Context(), ada, ticket.Handle)
	if err != nil {
		t.Fatal(err)
	}
	changed := f
	changed.SHA256 = strings.Repeat("0", 64)
	if _, err := s.Content(t.Context(), ada, ticket.Handle, changed, "call"); !errors.Is(err, errUnknown) {
		t.Errorf("another description: %v", err)
	}
	st, _ := s.Open(t.Context())
	if err := st.Put(t.Context(), KeyPrefix+"ada/"+ticket.Handle, store.Change{Value: nil, Entries: [][]byte{[]byte("more")}, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Content(t.Context(), ada, ticket.Handle, f, ""); err == nil {
		t.Error("a content with more bytes was read")
	}
}

// TestCreate_at_the_same_time_keeps_the_limits creates more uploads than an owner may have, at two nodes at once.
func TestCreate_at_the_same_time_keeps_the_limits(t *testing.T) {
	check := func(t *testing.T, first, second *Store) {
		t.Helper()
		for owner, size := range map[string]int64{"files": 1, "bytes": 8 << 20} {
			var taken atomic.Int64
			var all sync.WaitGroup
			for i := range 32 {
				all.Go(func() {
					_, err := []*Store{first, second}[i%2].Create(t.Context(), Owner{ID: owner, Share: "user ada"}, File{Size: size}, Limits{})
					if err == nil {
						taken.Add(1)
					} else if !errors.Is(err, errFull) {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := taken.Load(); n > int64(first.MaxFiles) || n*size > first.MaxTotal {
				t.Errorf("%s: %d uploads of %d bytes were created", owner, n, size)
			}
			st, _ := first.Open(t.Context())
			if keys, err := st.Keys(t.Context(), KeyPrefix+owner+"/", "", 100); err != nil || int64(len(keys)) != taken.Load() {
				t.Errorf("%s: %d records of %d uploads, error %v", owner, len(keys), taken.Load(), err)
			}
		}
	}
	t.Run("bolt", func(t *testing.T) {
		st := samples.Open(t)
		check(t, nodeOf(st), nodeOf(st))
	})
	storetest.OnShared(t, func(t *testing.T, server *storetest.SharedServer) {
		check(t, nodeOf(server.Open(t, KeyPrefix)), nodeOf(server.Open(t, KeyPrefix)))
	})
}

// oneChunk is a store of which at most one chunk is read at a time. After failAt chunks it fails.
type oneChunk struct {
	store.Store
	failAt int64
}

func (s oneChunk) Read(ctx context.Context, key string, from int64, limit int) ([][]byte, error) {
	if limit > 1 || from >= s.failAt {
		return nil, errors.New("too many chunks")
	}
	return s.Store.Read(ctx, key, from, limit)
}

func TestServe_copies_a_link_in_chunks(t *testing.T) {
	st, content := samples.Open(t), bytes.Repeat([]byte("content"), 400<<10)
	ticket, f, err := nodeOf(st).Add(t.Context(), ada, File{Name: "a.bin", Type: octetStream}, Limits{}, content, true)
	if err != nil || f.Size != int64(len(content)) {
		t.Fatal(f, err)
	}
	for failAt, complete := range map[int64]bool{4: true, 1: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _, _ = nodeOf(oneChunk{st, failAt}).Serve(w, r, ticket.Secret)
		}))
		defer server.Close()
		response, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		if response.ContentLength != f.Size || complete != (err == nil && bytes.Equal(got, content)) || !complete && err == nil {
			t.Errorf("%d chunks: %d of %d bytes, error %v", failAt, len(got), response.ContentLength, err)
		}
	}
}

// fullStore has no room for chunks.
type fullStore struct{ store.Store }

func (fullStore) Put(context.Context, string, store.Change) error { return store.ErrShare }

func TestServe_refuses_a_file_without_room(t *testing.T) {
	s := nodeOf(fullStore{samples.Open(t)})
	ticket, err := s.Create(t.Context(), ada, File{}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if status := s.put(t, ticket.Secret, []byte("content")); status != http.StatusInsufficientStorage {
		t.Errorf("status %d", status)
	}
}

func TestStore_that_fails_is_an_error(t *testing.T) {
	s := nodeOf(nil)
	failed := errors.New("no store")
	s.Open = func(context.Context) (store.Store, error) { return nil, failed }
	w := httptest.NewRecorder()
	if _, _, err := s.Serve(w, httptest.NewRequest(http.MethodPut, "/x", nil), "x"); !errors.Is(err, failed) || w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d, error %v", w.Code, err)
	}
	if strings.Contains(w.Body.String(), "no store") {
		t.Errorf("the response has the reason: %s", w.Body)
	}
	if _, err := s.Create(t.Context(), ada, File{}, Limits{}); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
}

// TestStore_broken_body checks that an upload that ends early is refused, leaves no content behind, and can be repeated.
func TestStore_broken_body(t *testing.T) {
	st := samples.Open(t)
	s := nodeOf(st)
	ticket, err := s.Create(t.Context(), ada, File{}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPut, "/x", io.MultiReader(bytes.NewReader(make([]byte, 3<<20)), errorReader{}))
	w := httptest.NewRecorder()
	if _, _, err := s.Serve(w, r, ticket.Secret); err != nil || w.Code != http.StatusBadRequest {
		t.Errorf("%d, error %v", w.Code, err)
	}
	if found, err := st.Get(t.Context(), keyOf(ticket.Secret)); err != nil || found.Length != 0 {
		t.Errorf("%d chunks, error %v", found.Length, err)
	}
	again := httptest.NewRecorder()
	if _, f, err := s.Serve(again, httptest.NewRequest(http.MethodPut, "/x", strings.NewReader("abc")), ticket.Secret); err != nil || again.Code != http.StatusCreated || f.Size != 3 {
		t.Errorf("%d, %+v, error %v", again.Code, f, err)
	}
}

// TestUser_files_are_exported_and_erased erases a file while another one of the user is uploaded, which fails then.
func TestUser_files_are_exported_and_erased(t *testing.T) {
	st := samples.Open(t)
	s := nodeOf(st)
	for _, user := range []string{"ada", "bob", ""} {
		ticket, err := s.Create(t.Context(), Owner{ID: "of" + user, User: user}, File{Name: user + ".txt", Type: "text/plain"}, Limits{})
		if err != nil || s.put(t, ticket.Secret, []byte("content")) != http.StatusCreated {
			t.Fatal(err)
		}
	}
	export := func(user string) string {
		t.Helper()
		all, err := s.Export(t.Context(), st, user)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(all)
		return string(text)
	}
	now := time.Now().UTC().Format(time.DateOnly)
	if text := export("ada"); !testkit.ContainsAll(text, `ada.txt text/plain size 7 ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73`) || !strings.Contains(text, `"created":"`+now) {
		t.Errorf("exported %s", text)
	} else if strings.Contains(text, "bob") || strings.Contains(text, Prefix) {
		t.Errorf("the export has a handle, or the file of another user: %s", text)
	}
	if text := export(""); text != "[]" {
		t.Errorf("files of no user: %s", text)
	}
	ticket, err := s.Create(t.Context(), Owner{ID: "ofada", User: "ada"}, File{}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	erase := readerFunc(func([]byte) (int, error) {
		if count, err := s.Erase(t.Context(), st, "ada"); count != 2 || err != nil {
			t.Errorf("%d files were erased, error %v", count, err)
		}
		return 0, io.EOF
	})
	w := httptest.NewRecorder()
	_, _, err = s.Serve(w, httptest.NewRequest(http.MethodPut, "/x", io.MultiReader(bytes.NewReader(make([]byte, 2<<20)), erase)), ticket.Secret)
	if err != nil || w.Code != http.StatusGone {
		t.Errorf("the upload in progress: %d, error %v", w.Code, err)
	}
	if keys, err := st.Keys(t.Context(), KeyPrefix, "", 10); err != nil || len(keys) != 2 || export("ada") != "[]" {
		t.Errorf("keys %q, error %v", keys, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestLimits_check(t *testing.T) {
	for _, c := range []struct {
		accept, mediaType string
		ok                bool
	}{
		{"", "text/html", true},
		{"*/*", "text/html", true},
		{"application/octet-stream", "text/html", true},
		{"image/*", "image/png", true},
		{"image/png", "image/png", true},
		{"image/png", "image/pngx", false},
		{"image/*", "text/html", false},
		{"image/png", "", true},
	} {
		l := Limits{Accept: []string{c.accept}}
		if c.accept == "" {
			l.Accept = nil
		}
		if err := l.Check(File{Type: c.mediaType}); (err == nil) != c.ok {
			t.Errorf("%q as %q: %v", c.mediaType, c.accept, err)
		}
	}
}

func TestStored_uploads_are_read(t *testing.T) {
	samples.Store(t, "uploads", func(st store.Store) error {
		s := nodeOf(st)
		s.Keep = store.MaxTTL
		for _, content := range []string{"first", "second"} {
			ticket, err := s.Create(t.Context(), ada, File{Name: content + ".txt", Type: "text/plain"}, Limits{Accept: []string{"text/*"}})
			if err != nil {
				return err
			}
			if s.put(t, ticket.Secret, []byte(content)); content == "first" {
				f, _ := s.Describe(t.Context(), ada, ticket.Handle)
				if _, err := s.Content(t.Context(), ada, ticket.Handle, f, "call"); err != nil {
					return err
				}
			}
		}
		_, err := s.Create(t.Context(), ada, File{Type: "image/png", Size: 5}, Limits{})
		return err
	}, func(st store.Store) (any, error) {
		s, all := nodeOf(st), make(map[string]any)
		return all, store.Scan(t.Context(), st, KeyPrefix, func(key string, found store.Record) error {
			var r record
			if err := stored.Decode("files", key, found.Value, &r); err != nil {
				return err
			}
			read := map[string]any{"file": r.File, "accept": r.Accept, "max": r.MaxSize, "owner": r.Owner, "state": r.State, "until": r.Until, "call": r.Call}
			if r.State == complete {
				content, err := s.Content(t.Context(), ada, strings.TrimPrefix(key, KeyPrefix+"ada/"), r.File, "")
				if err != nil {
					return err
				}
				read["content"] = string(content)
			}
			all[key] = read
			return nil
		})
	})
}
