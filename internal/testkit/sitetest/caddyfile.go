package sitetest

import (
	"bytes"
	"encoding/json"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
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
