package remote

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestChain(t *testing.T) {
	var chain Chain
	for i := range maxChain {
		next, err := chain.Enter("a.example", fmt.Sprintf("/agents/%d", i))
		if err != nil {
			t.Fatal(err)
		}
		chain = next
	}
	if _, err := chain.Enter("a.example", "/agents/x"); !errors.Is(err, ErrTooDeep) {
		t.Errorf("too deep: %v", err)
	}
	if _, err := chain.Enter("A.example:443", "agents/3/"); !errors.Is(err, ErrCycle) {
		t.Errorf("cycle: %v", err)
	}
	header := http.Header{}
	header.Set(chainHeader, chain.String())
	if read, err := ReadChain(header); err != nil || read.String() != chain.String() {
		t.Errorf("%v, %v", read, err)
	}
}

func TestReadChain(t *testing.T) {
	one := digest("a.example", "x")
	for name, test := range map[string]struct {
		values []string
		length int
		deep   bool
		fails  bool
	}{
		"none":         {nil, 0, false, false},
		"two headers":  {[]string{one + "," + one, one}, 3, false, false},
		"too deep":     {[]string{strings.Repeat(one+",", maxChain) + one}, 0, true, true},
		"huge":         {[]string{strings.Repeat(one+",", 10_000) + one}, 0, true, true},
		"malformed":    {[]string{one + ", me"}, 0, false, true},
		"empty part":   {[]string{one + ",," + one}, 0, false, true},
		"uppercase":    {[]string{strings.ToUpper(digest("a", "b"))}, 0, false, true},
		"wrong length": {[]string{one + "00"}, 0, false, true},
	} {
		chain, err := ReadChain(http.Header{chainHeader: test.values})
		if (err != nil) != test.fails || len(chain) != test.length || errors.Is(err, ErrTooDeep) != test.deep {
			t.Errorf("%s: %d, %v", name, len(chain), err)
		}
	}
}

// TestRun_cycle checks that agents of two servers that call each other without end are stopped: A
// calls B, B calls A, A must not call B again.
func TestRun_cycle(t *testing.T) {
	a, b := newServer(t), newServer(t)
	started := new(atomic.Int64)
	serve := func(own, other *server) {
		c := other.client(t, nil)
		own.start = func(w http.ResponseWriter, r *http.Request) {
			started.Add(1)
			chain, err := ReadChain(r.Header)
			if err == nil {
				chain, err = chain.Enter(r.Host, r.URL.Path)
			}
			if err != nil {
				writes(http.StatusLoopDetected, `{"detail":"`+err.Error()+`"}`)(w, r)
				return
			}
			if _, _, err = c.Run(r.Context(), &Call{Reference: other.reference(t), Chain: chain}); err != nil {
				writes(http.StatusBadGateway, `{"detail":"`+err.Error()+`"}`)(w, r)
			}
		}
	}
	serve(a, b)
	serve(b, a)
	_, _, err := a.client(t, nil).Run(t.Context(), &Call{Reference: a.reference(t)})
	if err == nil || !testkit.ContainsAll(err.Error(), "already chain") {
		t.Errorf("error %v", err)
	}
	if n := started.Load(); n != 2 {
		t.Errorf("%d Engagements", n)
	}
}

func FuzzReadDefinition(f *testing.F) {
	f.Add([]byte(document))
	f.Add([]byte(bomb))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := readDefinition(data, "helper")
		if err == nil && (d == "" || len(d) > maxDescription) {
			t.Errorf("description %q", d)
		}
	})
}

func FuzzReadState(f *testing.F) {
	f.Add([]byte(`{"status":"complete","text":"\u00e9","exposes":{"a":[1]}}`))
	f.Add([]byte(`{"status":"error","error":{"kind":"limit","message":"m"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := readState(body)
		if err != nil {
			return
		}
		if outputs, status := s.result(); !outputs.IsValid() || status < 200 {
			t.Errorf("%s, %d", outputs, status)
		}
	})
}
