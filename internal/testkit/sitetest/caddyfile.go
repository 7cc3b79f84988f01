package sitetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// Adapt turns a Caddyfile into indented JSON.
func Adapt(caddyfile string) (string, []caddyconfig.Warning, error) {
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return "", nil, err
	}
	var indented bytes.Buffer
	err = json.Indent(&indented, config, "", "\t")
	return indented.String(), warnings, err
}

// CaddyTools runs the command `caddy tools`.
func CaddyTools(arguments ...string) (stdout, stderr string, err error) {
	cmd := &cobra.Command{Use: "tools", SilenceUsage: true}
	caddycmd.Commands()["tools"].CobraFunc(cmd)
	var out, aside bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&aside)
	cmd.SetArgs(append([]string{}, arguments...)) // nil would mean the arguments of the test binary
	err = cmd.Execute()
	return out.String(), aside.String(), err
}

// StartAdmin starts a whole Caddyfile and stops it with the test. DIR is replaced by the site's directory, PORT by its
// port, ADMIN by the address of an admin endpoint, which StartAdmin returns.
func StartAdmin(s *Site, caddyfile string) (admin string) {
	s.T.Helper()
	admin = fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(s.T))
	config, _, err := Adapt(strings.NewReplacer("DIR", s.Dir, "PORT", fmt.Sprint(s.Port), "ADMIN", admin).Replace(caddyfile))
	if err != nil {
		s.T.Fatal(err)
	}
	StartJSON(s.T, []byte(config))
	return admin
}

// StartJSON starts a configuration and stops it with the test.
func StartJSON(t *testing.T, config []byte) {
	t.Helper()
	http.DefaultClient.CloseIdleConnections()
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	stopAtEnd(t)
}
