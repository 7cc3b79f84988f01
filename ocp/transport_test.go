package ocp

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestTransport: which requests carry the context.
func TestTransport(t *testing.T) {
	shared := NewSharedContext(NewContext("cli_tool"))
	id := shared.Context().ContextID
	var got []string
	see := func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.Path+" "+r.Header.Get(HeaderContextID))
	}
	other := httptest.NewServer(http.HandlerFunc(see))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		see(w, r)
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/there":
			http.Redirect(w, r, other.URL+"/other", http.StatusFound)
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: &Transport{Context: shared}}
	for _, test := range []struct {
		path   string
		header http.Header
		want   []string
	}{
		{"/plain", nil, []string{"/plain " + id}},
		{"/own", http.Header{HeaderContextID: {"ocp-own"}}, []string{"/own ocp-own"}},
		{"/here", http.Header{}, []string{"/here " + id, "/end " + id}},
		{"/there", nil, []string{"/there " + id, "/other "}},
	} {
		got = nil
		request, err := http.NewRequest(http.MethodGet, server.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header = test.header
		before := len(request.Header)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%s: got %q, want %q", test.path, got, test.want)
		}
		if len(request.Header) != before {
			t.Errorf("%s: the request was changed: %v", test.path, request.Header)
		}
	}
	broken := errors.New("no way")
	client.Transport = &Transport{Context: shared, Merge: true, Base: roundTrip(func(*http.Request) (*http.Response, error) { return nil, broken })}
	if _, err := client.Get("http://127.0.0.1/"); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestTransport_merges(t *testing.T) {
	shared := NewSharedContext(NewContext("cli_tool"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if in := ReadIncoming(r.Header, ReadOptions{Strict: true}); in != nil && in.Judge().Verdict == Conforming {
			in.Reply(Update{At: time.Now(), ContextSummary: "went well"}).SetReplyHeaders(w.Header())
		}
	}))
	defer server.Close()
	client := &http.Client{Transport: &Transport{Context: shared, Merge: true}}
	response, err := client.Get(server.URL + "/v1/orders/7")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got := shared.Context().ContextSummary; got != "went well" {
		t.Errorf("summary %q", got)
	}
}

func TestSetHeaders(t *testing.T) {
	c := NewContext("cli_tool")
	c.CurrentGoal, c.User, c.Workspace = strings.Repeat("long ", 60), "al\nice", "shop"
	header := http.Header{HeaderUser: {"bob"}, "Accept": {"*/*"}}
	if err := c.SetHeaders(header); err != nil {
		t.Fatal(err)
	}
	if _, ok := header[HeaderUser]; ok || header.Get(HeaderCurrentGoal) != "" {
		t.Errorf("got %v, want neither a user nor a goal", header)
	}
	if header.Get(HeaderWorkspace) != "shop" || header.Get("Accept") == "" {
		t.Errorf("got %v, want the workspace shop, and Accept", header)
	}
	in := ReadIncoming(header, ReadOptions{})
	if got := in.Context(); len(in.Faults) > 0 || got.CurrentGoal != c.CurrentGoal || got.User != c.User {
		t.Errorf("%+v, %v", got, in.Faults)
	}
	c.ContextID = ""
	before := len(header)
	if err := c.SetHeaders(header); err == nil || len(header) != before {
		t.Errorf("%v", err)
	}
}
