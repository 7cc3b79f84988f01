package hosted

import (
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
)

func unmarshal(text string) (*RemoteServers, error) {
	d := caddyfile.NewTestDispenser(text)
	d.Next()
	return unmarshalRemote(directive.NewBlock(d))
}

func TestUnmarshalRemote(t *testing.T) {
	for text, want := range map[string]string{
		"remote_agents a.example b.example:8443": `{"hosts":["a.example","b.example:8443"]}`,
		`remote_agents a.example {
			header_up  Authorization "Bearer {env.TOKEN}"
			credential query key {env.KEY}
			forward_caller
			allow_private_addresses
			trusted_ca a.pem b.pem
			trusted_ca c.pem
			timeout    1m
		}`: `{"hosts":["a.example"],"credentials":[{"in":"header","name":"Authorization","value":"Bearer {env.TOKEN}"},` +
			`{"in":"query","name":"key","value":"{env.KEY}"}],"forward_caller":true,"allow_private_addresses":true,` +
			`"trusted_ca":["a.pem","b.pem","c.pem"],"timeout":60000000000}`,
	} {
		s, err := unmarshal(text)
		got, _ := json.Marshal(s)
		if err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"remote_agents":                                       "servers",
		"remote_agents https://a.example":                     "scheme",
		"remote_agents *.example":                             "host",
		"remote_agents a.example {\nforward\n}":               "forward_caller",
		"remote_agents a.example {\nforward_caller yes\n}":    "argument",
		"remote_agents a.example {\ntimeout off\n}":           "timeout",
		"remote_agents a.example {\ncredential cookie a b\n}": "credential",
	} {
		if s, err := unmarshal(text); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%q: got %+v, %v, want %q", text, s, err, want)
		}
	}
}

func TestNewClient(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	folder := t.TempDir()
	valid, empty := filepath.Join(folder, "ca.pem"), filepath.Join(folder, "empty.pem")
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for path, content := range map[string][]byte{valid: encoded, empty: nil} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		servers []*RemoteServers
		want    string // of the error; "" if it is valid
	}{
		"valid":             {[]*RemoteServers{{Hosts: []string{"a.example"}, TrustedCA: []string{valid}}, {Hosts: []string{"b.example"}}}, ""},
		"no hosts":          {[]*RemoteServers{{}}, "hosts"},
		"null":              {[]*RemoteServers{nil}, "hosts"},
		"twice":             {[]*RemoteServers{{Hosts: []string{"a.example"}}, {Hosts: []string{"A.example"}}}, "a.example twice"},
		"no host":           {[]*RemoteServers{{Hosts: []string{"a.example/agents"}}}, "a.example/agents"},
		"timeout":           {[]*RemoteServers{{Hosts: []string{"a.example"}, Timeout: -1}}, "timeout"},
		"no file":           {[]*RemoteServers{{Hosts: []string{"a.example"}, TrustedCA: []string{filepath.Join(folder, "none.pem")}}}, "trusted_ca none.pem"},
		"not a certificate": {[]*RemoteServers{{Hosts: []string{"a.example"}, TrustedCA: []string{empty}}}, "trusted_ca empty.pem PEM"},
	} {
		c, err := newRemoteClient(caddy.Context{Context: t.Context()}, test.servers, zap.NewNop())
		if test.want != "" {
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", name, err, test.want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for host, want := range map[string]bool{"a.example": true, "b.example": true, "c.example": false} {
			reference, err := oagent.ParseReference(strings.Join([]string{"oagent:/", host, "helper"}, "/"))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Check(reference); (err == nil) != want {
				t.Errorf("%s: %v", host, err)
			}
		}
		c.Close()
	}
}
