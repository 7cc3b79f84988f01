package mcpservers

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/mcpadapter/client"
)

// read reads the option as a toolset does, and returns the options of the client.
func read(text string) (o client.Options, err error) {
	d := caddyfile.NewTestDispenser(text)
	c := new(Config)
	if err = c.UnmarshalCaddyfile(d); err != nil {
		return o, err
	}
	return c.clientOptions("files")
}

func TestRead_a_command(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_PASSED", "passed")
	o, err := read(`mcp_server command npx -y server {env.FAIRWAY_TEST_PASSED} {
		env FAIRWAY_TEST_PASSED FAIRWAY_TEST_UNSET LEVEL=debug
		dir /srv
		user_processes each
		max_processes 4
		max_memory 1MiB
	}`)
	if err != nil {
		t.Fatal(err)
	}
	want := client.Command{
		Path: "npx", Arguments: []string{"-y", "server", "passed"}, Env: []string{"FAIRWAY_TEST_PASSED=passed", "LEVEL=debug"},
		Dir: "/srv", MaxMemory: 1 << 20,
	}
	if !reflect.DeepEqual(*o.Command, want) || !o.OwnProcesses || o.MaxProcesses != 4 {
		t.Errorf("%+v %+v, want the command %+v", o, o.Command, want)
	}
}

func TestRead_a_URL(t *testing.T) {
	t.Setenv("FAIRWAY_TEST_TOKEN", "a token")
	o, err := read("mcp_server https://files.internal/mcp {\nheader x-token {env.FAIRWAY_TEST_TOKEN}\nretries 2\n}")
	if err != nil {
		t.Fatal(err)
	}
	got := [...]any{o.Endpoint, o.Header.Get("X-Token"), o.Retries, o.MaxProcesses}
	if want := [...]any{"https://files.internal/mcp", "a token", 2, client.DefaultMaxProcesses}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRead_refuses(t *testing.T) {
	for text, want := range map[string]string{
		"mcp_server":                                    "takes a URL, or command",
		"mcp_server command":                            "takes a URL, or command",
		"mcp_server https://a https://b":                "takes a URL, or command",
		"mcp_server ftp://files":                        "http or https URL",
		"mcp_server https://ada:pass@file":              "without user",
		"mcp_server https://files {\nheader X-Token\n}": "header takes the name of a header and its value",
		"mcp_server https://files {\nheader X-Token {env.FAIRWAY_TEST_UNSET}\n}": "header X-Token: the value is empty",
		"mcp_server https://files {\nheader X-Token $SECRET\n}":                  "write {env.NAME}",
		"mcp_server https://files {\nheader X-Token a\nheader x-token b\n}":      "twice",
		"mcp_server https://files {\nenv PATH\n}":                                "are for a server that is a command",
		"mcp_server https://files {\nsuspicious_tools never\n}":                  "warn",
		"mcp_server command npx {\nuser_processes all\n}":                        "shared",
		"mcp_server command npx {\nheader X-Token a\n}":                          "a process has no headers",
		"mcp_server command npx {\nmax_processes 0\n}":                           "max_processes",
		"mcp_server https://files {\nretry 2\n}":                                 "known are dir, env",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestOptions_refuses_values_of_JSON(t *testing.T) {
	for want, c := range map[string]Config{
		"either a URL or a command": {},
		"must not be negative":      {URL: "https://files", Retries: -1},
		`user_processes "all"`:      {Command: []string{"npx"}, UserProcesses: "all"},
		`suspicious_tools "never"`:  {URL: "https://files", SuspiciousTools: "never"},
	} {
		if _, err := c.clientOptions("files"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
