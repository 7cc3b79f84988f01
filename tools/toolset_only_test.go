package tools

import "testing"

func TestOnly(t *testing.T) {
	s := NewToolset("trips", []*Tool{{Name: "a"}, {Name: "b"}, {Name: "c"}})
	s.Title, s.Hash = "Trips", "x"
	narrow := s.Only(func(t *Tool) bool { return t.Name != "b" })
	if got := narrow.Tools(); len(got) != 2 || got[1] != s.Tools()[2] {
		t.Errorf("got %d tools, want 2, of which the second is c", len(got))
	}
	if narrow.Title != "Trips" || narrow.Hash == s.Hash {
		t.Errorf("got the title %q and the hash %q, want Trips and a hash other than %q", narrow.Title, narrow.Hash, s.Hash)
	}
	if _, ok := narrow.Tool("b"); ok || len(s.Tools()) != 3 {
		t.Error("b")
	}
	if again := s.Only(func(t *Tool) bool { return t.Name != "c" }); again.Hash == narrow.Hash {
		t.Error("other tools, the same hash")
	}
}

func TestAppendArguments(t *testing.T) {
	set, err := Build([]byte(`{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/x/{id}":{"post":{"operationId":"x",
		"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}},{"name":"n","in":"query","schema":{"type":"integer"}}],
		"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"to":{"type":"string"}},"additionalProperties":true}}}},
		"responses":{"200":{"description":"ok"}}}}}}`), BuildOptions{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		`{"id":"1"}`: `{"id":"1"}`,
		`{"more":[1, 2],"to":"é","n":7,"id":"a/b"}`: `{"id":"a/b","n":7,"to":"é","more":[1, 2]}`,
		`{"id":"1","n":null}`:                       `{"id":"1"}`,
	} {
		call, err := set.Tools()[0].Bind([]byte(arguments))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(call.AppendArguments(nil)); got != want {
			t.Errorf("%s: got %s, want %s", arguments, got, want)
		}
	}
}
