package mcpservers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/mcpadapter/client"
)

func init() {
	caddy.RegisterModule(new(Config))
}

// Config is an MCP server whose tools a toolset has. URL or Command is required.
type Config struct {
	// The URL of a server over Streamable HTTP or HTTP+SSE, of any revision. Placeholders such as {env.URL} are
	// replaced. It must not contain secrets. Default: none; a URL or a command is required.
	URL string `json:"url,omitempty"`

	// A program and its arguments, which speaks MCP on its standard input and output. Placeholders such as {env.DIR}
	// are replaced. The process has only the environment variables of env. Default: none; a URL or a command is required.
	Command []string `json:"command,omitempty"`

	// Environment variables of the process: NAME takes the value of the gateway's own variable, NAME=value sets one.
	// Placeholders are replaced. Default: none.
	Env []string `json:"env,omitempty"`

	// The working directory of the process. Default: that of the gateway.
	Dir string `json:"dir,omitempty"`

	// Which users a process serves. "shared": all users share one. "each": each user has one of his own; callers
	// without authentication have one for each network address. Default: shared.
	UserProcesses string `json:"user_processes,omitempty"`

	// How many processes run at most, if each user has one. The one that has been unused for the longest time is
	// ended to make room. Default: 16.
	MaxProcesses int `json:"max_processes,omitempty"`

	// The limit of the data of a process and of each process that it starts, in bytes. Only Linux has it.
	// Default: none.
	MaxMemory int64 `json:"max_memory,omitempty"`

	// Headers of each request over HTTP, also of those that list tools. Placeholders are replaced. The credentials of
	// the toolset take precedence. Default: none.
	Header http.Header `json:"header,omitempty"`

	// How often a call is sent again while the server is not available. This is for calls that have not reached the
	// server, and for those that only read: resources, prompts, completion, and tools with readOnlyHint that the operator has
	// set or trusts. Default: 0.
	Retries int `json:"retries,omitempty"`

	// After how many failures to connect in a row calls fail at once for a while, without another attempt. Default: 3.
	MaxFails int `json:"max_fails,omitempty"`

	// The longest time in which calls fail at once. It begins with a second, and doubles with each further failure.
	// Default: 30s.
	FailDuration caddy.Duration `json:"fail_duration,omitempty"`

	// Whether the annotation readOnlyHint of the server is trusted: readonly and rules then treat such tools as ones that
	// only read. Default: false; every tool of the server counts as one that changes something.
	TrustAnnotations bool `json:"trust_annotations,omitempty"`

	// What happens to tools, and to the server's instructions, that have suspicious texts: characters that people do not
	// see, escape sequences, encoded data, or instructions about other tools, secrets or the user. "warn": they are
	// reported. "withhold": they are also withheld, neither listed nor callable, until the lock of the toolset approves
	// them. Default: warn.
	SuspiciousTools string `json:"suspicious_tools,omitempty"`

	// The transport of the requests over HTTP: a module of reverse_proxy, with its options for TLS, timeouts and
	// proxies. Default: Go's default transport, which uses the proxy of the environment.
	Transport json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`
}

// CaddyModule returns the Caddy module information.
func (*Config) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: app.MCPServerModule, New: func() caddy.Module { return new(Config) }}
}

// Values of Config.SuspiciousTools.
const (
	warn     = "warn"
	withhold = "withhold"
)

// Values of Config.UserProcesses.
const (
	shared = "shared"
	each   = "each"
)

// UnmarshalCaddyfile reads the option mcp_server of a toolset. Syntax:
//
//	mcp_server <url> | command <program> [<arguments...>] {
//		header            <name> <value>
//		transport         <name> { … }
//		env               <names or NAME=value...>
//		dir               <directory>
//		user_processes    shared | each
//		max_processes     <number>
//		max_memory        <size>
//		retries           <number>
//		max_fails         <number>
//		fail_duration     <duration>
//		trust_annotations
//		suspicious_tools  warn | withhold
//	}
func (c *Config) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the name of the option
	switch arguments := d.RemainingArgs(); {
	case len(arguments) > 1 && arguments[0] == "command":
		c.Command = arguments[1:]
	case len(arguments) == 1 && arguments[0] != "command":
		c.URL = arguments[0]
	default:
		return d.Err("mcp_server takes a URL, or command and a program, as in: mcp_server https://files.internal/mcp")
	}
	inner := directive.NewBlock(d)
	return inner.Read("mcp_server", c.options(inner))
}

func (c *Config) options(b *directive.Block) directive.Options {
	return directive.Options{
		"header":            func() error { return c.readHeader(b) },
		"transport":         func() error { return c.readTransport(b) },
		"env":               directive.To(b.List, &c.Env),
		"dir":               directive.To(b.Text, &c.Dir),
		"user_processes":    func() error { return b.OneOf(&c.UserProcesses, shared, each) },
		"max_processes":     directive.To(b.Positive, &c.MaxProcesses),
		"max_memory":        directive.To(b.Size, &c.MaxMemory),
		"retries":           directive.To(b.Positive, &c.Retries),
		"max_fails":         directive.To(b.Positive, &c.MaxFails),
		"fail_duration":     directive.To(b.Duration, &c.FailDuration),
		"trust_annotations": directive.To(b.Flag, &c.TrustAnnotations),
		"suspicious_tools":  func() error { return b.OneOf(&c.SuspiciousTools, warn, withhold) },
	}
}

func (c *Config) readHeader(b *directive.Block) error {
	arguments := b.RemainingArgs()
	if len(arguments) != 2 || !httpguts.ValidHeaderFieldName(arguments[0]) {
		return b.Err("header takes the name of a header and its value")
	}
	name := textproto.CanonicalMIMEHeaderKey(arguments[0])
	if c.Header == nil {
		c.Header = make(http.Header)
	}
	if c.Header[name] != nil {
		return b.Errf("header %s is given twice", name)
	}
	c.Header[name] = arguments[1:]
	return directive.CheckVariable(arguments[1])
}

func (c *Config) readTransport(b *directive.Block) error {
	err := b.Once()
	if err == nil {
		c.Transport, err = b.Guest("http.reverse_proxy.transport", "protocol")
	}
	return err
}

// Location implements app.MCPServer.
func (c *Config) Location(toolset string) (string, error) {
	o, err := c.clientOptions(toolset)
	return o.Location(), err
}

// Withholds implements app.MCPServer.
func (c *Config) Withholds() bool { return c.SuspiciousTools == withhold }

// clientOptions returns the options of the client of the server.
func (c *Config) clientOptions(name string) (client.Options, error) {
	repl := caddy.NewReplacer()
	o := client.Options{
		Name: name, OwnProcesses: c.UserProcesses == each, MaxProcesses: c.MaxProcesses, Version: version(),
		Retries: c.Retries, MaxFails: c.MaxFails, FailDuration: time.Duration(c.FailDuration),
	}
	if c.Retries < 0 || c.MaxFails < 0 || c.FailDuration < 0 {
		return o, errors.New("retries, max_fails and fail_duration must not be negative")
	}
	if c.UserProcesses != "" && c.UserProcesses != shared && c.UserProcesses != each {
		return o, fmt.Errorf("user_processes %q: use %s or %s", c.UserProcesses, shared, each)
	}
	if c.SuspiciousTools != "" && c.SuspiciousTools != warn && c.SuspiciousTools != withhold {
		return o, fmt.Errorf("suspicious_tools %q: use %s or %s", c.SuspiciousTools, warn, withhold)
	}
	if o.MaxProcesses == 0 {
		o.MaxProcesses = client.DefaultMaxProcesses
	}
	o.Endpoint = repl.ReplaceAll(c.URL, "")
	if len(c.Header) > 0 {
		o.Header = make(http.Header, len(c.Header))
	}
	for name, values := range c.Header {
		for _, value := range values {
			replaced, err := repl.ReplaceOrErr(value, true, true)
			if err != nil || !httpguts.ValidHeaderFieldValue(replaced) {
				return o, fmt.Errorf("header %s: the value is empty, or a placeholder in it is", name)
			}
			o.Header[textproto.CanonicalMIMEHeaderKey(name)] = append(o.Header[textproto.CanonicalMIMEHeaderKey(name)], replaced)
		}
	}
	if len(c.Command) > 0 {
		o.Command = &client.Command{Dir: repl.ReplaceAll(c.Dir, ""), MaxMemory: c.MaxMemory}
		for _, argument := range c.Command {
			o.Command.Arguments = append(o.Command.Arguments, repl.ReplaceAll(argument, ""))
		}
		o.Command.Path, o.Command.Arguments = o.Command.Arguments[0], o.Command.Arguments[1:]
		for _, variable := range c.Env {
			o.Command.Env = append(o.Command.Env, environment(repl.ReplaceAll(variable, ""))...)
		}
	} else if len(c.Env) > 0 || c.Dir != "" || c.UserProcesses != "" || c.MaxProcesses != 0 || c.MaxMemory != 0 {
		return o, errors.New("env, dir, user_processes, max_processes and max_memory are for a server that is a command")
	}
	return o, o.Check()
}

// environment returns a variable of the process. A name without a value is that of a variable of the gateway.
func environment(variable string) []string {
	if strings.Contains(variable, "=") {
		return []string{variable}
	}
	if value, set := os.LookupEnv(variable); set {
		return []string{variable + "=" + value}
	}
	return nil
}

// version returns the version of the gateway.
func version() string {
	short, _ := caddy.Version()
	return short
}
