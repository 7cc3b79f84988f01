package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/hosted/registry"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
)

func TestUnmarshalAccept(t *testing.T) {
	for text, want := range map[string]string{
		"accept /agents {\nby alice bob\nby carol\ncapabilities get-* oagent://a.example/agents/helper\nidentities partner\n}": `{"path":"/agents","by":["alice","bob","carol"],` +
			`"capabilities":["get-*","oagent://a.example/agents/helper"],"identities":["partner"]}`,
		"accept {\nby alice\n}":          `{"by":["alice"]}`,
		"accept":                         "by",
		"accept /a /b {\nby alice\n}":    "argument",
		"accept {\ncapabilities x\n}":    "by",
		"accept {\nby a\ncapabilities G": "G",
		"accept {\nby a\nidentity x\n}":  "identities",
	} {
		d := caddyfile.NewTestDispenser(text)
		d.Next()
		c, err := unmarshalAccept(directive.NewBlock(d))
		if !strings.HasPrefix(want, "{") {
			if err == nil || !testkit.ContainsAll(err.Error(), want) {
				t.Errorf("%q: error %v, want %q", text, err, want)
			}
			continue
		}
		if got, _ := json.Marshal(c); err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		config AcceptConfig
		serve  string
		want   string // of the error; "" if it is valid
	}{
		"valid":              {AcceptConfig{Path: "/agents/", By: []string{"alice"}, Capabilities: []string{"*"}, Identities: []string{"partner"}}, "/agents", ""},
		"not served":         {AcceptConfig{By: []string{"alice"}}, "", "serve"},
		"other path":         {AcceptConfig{Path: "/documents", By: []string{"alice"}}, "/agents", "/documents /agents"},
		"for no user":        {AcceptConfig{}, "/agents", "users"},
		"for the empty user": {AcceptConfig{By: []string{""}}, "/agents", "users"},
		"invalid pattern":    {AcceptConfig{By: []string{"alice"}, Capabilities: []string{"a*b"}}, "/agents", "capabilities"},
		"unknown identity":   {AcceptConfig{By: []string{"alice"}, Identities: []string{"admin"}}, "/agents", "identities admin"},
	} {
		err := test.config.Validate(test.serve, func(identity string) bool { return identity == "partner" })
		if (err == nil) != (test.want == "") || err != nil && !testkit.ContainsAll(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// document returns the document of an agent without capabilities.
func document(name, description string) string {
	return "kind: openagentspec:v1/agent\nname: " + name + "\ndescription: " + description + "\nintent: You help.\nowner: team\ncapabilities: {}\n"
}

// handler stands for the oagent handler of a Service.
type handler struct {
	files    []*oagent.Agent
	replaced chan string // descriptions of the accepted agents
}

func newService(t *testing.T, h *handler, open func(context.Context) (store.Store, error)) *acceptService {
	t.Helper()
	set, err := agentset.New(h.files, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.replaced = make(chan string, 100)
	return newAcceptService(acceptOptions{
		Config: &AcceptConfig{By: []string{"alice"}}, Logger: zap.NewNop(), Realm: func() string { return "a.example" }, OpenStore: open,
		Set: func() *agentset.Set { return set },
		Check: func(a *oagent.Agent, _ *agentset.Set) error {
			if a.Description == "unsupported" {
				return errors.New("unsupported")
			}
			return nil
		},
		Replace: func(agents []*oagent.Agent) {
			var all []string
			for _, a := range agents {
				all = append(all, a.Name+"="+a.Description)
			}
			h.replaced <- strings.Join(all, " ")
		},
	})
}

func openStore(t *testing.T) func(context.Context) (store.Store, error) {
	s, err := embedded.Open(filepath.Join(t.TempDir(), "records.db"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return func(context.Context) (store.Store, error) { return s, nil }
}

func TestService(t *testing.T) {
	own, err := oagent.ReadAgent([]byte(document("own", "file")), "own.yaml")
	if err != nil {
		t.Fatal(err)
	}
	open := openStore(t)
	h := &handler{files: []*oagent.Agent{own}}
	s := newService(t, h, open)
	s.Start()
	defer s.Stop()
	if got := <-h.replaced; got != "" {
		t.Errorf("at first: %q", got)
	}
	put := func(name, source string) (registry.Entry, error) {
		e, _, err := s.Put(t.Context(), registry.Change{Name: name, Source: []byte(source), By: "alice"})
		return e, err
	}
	e, err := put("mine", "# mine\n"+document("mine", "one")+"...\n# end\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := <-h.replaced; got != "mine=one" {
		t.Errorf("put: %q", got)
	}
	documents, err := s.opened.Documents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a, err := oagent.ReadAgent(documents[0].Source, ""); err != nil || a.Hash != e.Digest {
		t.Errorf("the digest %s is not that of the served document: %v", e.Digest, err)
	}
	for name, test := range map[string]struct {
		agent, source string
		want          error // nil for any
	}{
		"from a file": {"own", document("own", "one"), errFromFile},
		"unsupported": {"mine", document("mine", "unsupported"), nil},
		"invalid":     {"mine", "kind: [", nil},
		"other name":  {"mine", document("yours", "one"), nil},
	} {
		if _, err := put(test.agent, test.source); err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Delete(t.Context(), "own", "alice", registry.Condition{}); !errors.Is(err, errFromFile) {
		t.Errorf("delete the agent of a file: %v", err)
	}
	if !s.Permits("alice") || s.Permits("bob") || s.Permits("") {
		t.Error("wrong users")
	}
	after := &handler{files: h.files}
	restarted := newService(t, after, open)
	restarted.Start()
	defer restarted.Stop()
	if got := <-after.replaced; got != "mine=one" { // Start waits for it
		t.Errorf("after a restart: %q", got)
	}
	if err := s.Delete(t.Context(), "mine", "alice", registry.Condition{}); err != nil {
		t.Fatal(err)
	}
	if got := <-after.replaced; got != "" {
		t.Errorf("deleted: %q", got)
	}
}

// TestService_store checks that the Service starts and stops while the store cannot be opened, and
// uses it as soon as it can be.
func TestService_store(t *testing.T) {
	open, tries := openStore(t), 0
	h := new(handler)
	s := newService(t, h, func(ctx context.Context) (store.Store, error) {
		if tries++; tries == 1 {
			return nil, errors.New("no connection")
		}
		return open(ctx)
	})
	s.Start()
	if got := <-h.replaced; got != "" || tries != 2 {
		t.Errorf("%q after %d tries", got, tries)
	}
	s.Stop()
	never := newService(t, new(handler), func(context.Context) (store.Store, error) { return nil, errors.New("no connection") })
	never.Start()
	if _, _, err := never.Put(t.Context(), registry.Change{Name: "mine", Source: []byte(document("mine", "one"))}); err == nil {
		t.Error("accepted without a store")
	}
	never.Stop()
}
