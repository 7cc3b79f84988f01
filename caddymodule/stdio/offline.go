package stdio

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"

	keptcalls "github.com/fairwayhq/fairway/caddymodule/calls"
	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/mcp"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/text"
)

// An offlineSite is a configuration that is loaded without listeners. Requests go to one of its
// HTTP servers from inside the process. The app agents is the only app that is started.
type offlineSite struct {
	agents *site.App
	server *caddyhttp.Server
	mcp    *mcp.Handler
	target *url.URL // URL of the endpoint for clients of the site
	header http.Header
	query  string // of the client's request
}

// openOfflineSite loads the configuration that the command line selects and chooses the endpoint.
// Calls says whether tools will be called.
func openOfflineSite(flags caddycmd.Flags, calls bool) (*offlineSite, error) {
	header, err := headerFlag(flags)
	if err != nil {
		return nil, err
	}
	query := ""
	if calls { // other commands do not have the flag
		if choice := flags.String("tools"); choice != "" {
			if err := route.CheckListChoice(choice); err != nil {
				return nil, fmt.Errorf("--tools: %w", err)
			}
			query = route.ListQuery(choice)
		}
	}
	raw, err := loadConfig(flags, calls)
	if err != nil {
		return nil, err
	}
	offline, err := loadOffline(raw, false)
	if err != nil {
		return nil, err
	}
	selected, err := selectEndpoint(mcpEndpointsOf(offline.http), flags.String("site"), flags.String("path"))
	if err != nil {
		return nil, errors.Join(err, offline.agents.Cleanup())
	}
	kept, err := site.Get[*keptcalls.Section](offline.agents)
	if err != nil {
		return nil, errors.Join(err, offline.agents.Cleanup())
	}
	kept.KeptCalls = &calllog.Config{Off: true} // the store may be in use by a running Caddy
	return &offlineSite{
		agents: offline.agents, server: offline.http.Servers[selected.server], mcp: selected.mcp, header: header, query: query,
		target: selected.url(offline.secure[selected.server], flags.String("site"), flags.String("path")),
	}, offline.agents.Start()
}

// offlineApps are the apps of a configuration that is loaded without side effects. Nothing is started.
type offlineApps struct {
	agents *site.App
	http   *caddyhttp.App
	secure map[string]bool // by server name: whether its clients would use TLS
}

// loadOffline loads the apps of a configuration without the parts that stripListeners removes. If quiet, only errors are logged.
func loadOffline(raw []byte, quiet bool) (*offlineApps, error) {
	config, secure, err := stripListeners(raw)
	if err != nil {
		return nil, err
	}
	if quiet {
		config.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{caddy.DefaultLoggerName: {BaseLog: caddy.BaseLog{Level: "ERROR"}}}}
	}
	ctx, err := caddy.ProvisionContext(config)
	if err != nil {
		return nil, fmt.Errorf("loading the configuration: %w", err)
	}
	agents, err := ctx.App("agents")
	if err != nil {
		return nil, err
	}
	offline := &offlineApps{agents: agents.(*site.App), secure: secure}
	sites, err := ctx.App("http")
	if err != nil {
		return nil, errors.Join(err, offline.agents.Cleanup())
	}
	offline.http = sites.(*caddyhttp.App)
	return offline, nil
}

// close releases the documents. Resources of other modules are released when the process ends.
func (s *offlineSite) close() { _ = s.agents.Cleanup() }

// stripListeners returns a configuration without the parts that listen, write files or open connections
// when it is loaded: the admin endpoint, listeners, certificates and log files. Secure has the servers, by name, whose
// clients would use TLS.
func stripListeners(raw []byte) (config *caddy.Config, secure map[string]bool, err error) {
	config = new(caddy.Config)
	if err := json.Unmarshal(raw, config); err != nil {
		return nil, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	persist := false
	config.Admin = &caddy.AdminConfig{Disabled: true, Config: &caddy.ConfigSettings{Persist: &persist}}
	redirectLogs(config)

	// These apps only serve connections, and they write to the storage.
	delete(config.AppsRaw, "tls")
	delete(config.AppsRaw, "pki")

	if config.AppsRaw["http"] == nil {
		return nil, nil, errors.New("the configuration has no HTTP site, so it has no MCP endpoint")
	}
	var sites caddyhttp.App
	if err := caddy.StrictUnmarshalJSON(config.AppsRaw["http"], &sites); err != nil {
		return nil, nil, fmt.Errorf("reading the configuration of the http app: %w", err)
	}
	secure = make(map[string]bool, len(sites.Servers))
	for name, server := range sites.Servers {
		if server == nil {
			return nil, nil, fmt.Errorf("the http server %q is null", name)
		}
		if server.AutoHTTPS == nil {
			server.AutoHTTPS = new(caddyhttp.AutoHTTPSConfig)
		}
		isSecure := func(address string) bool { return !strings.HasSuffix(address, ":80") }
		secure[name] = len(server.TLSConnPolicies) > 0 || !server.AutoHTTPS.Disabled && slices.ContainsFunc(server.Listen, isSecure)
		server.AutoHTTPS = &caddyhttp.AutoHTTPSConfig{Disabled: true, Skip: server.AutoHTTPS.Skip}
		server.ListenProtocols, server.ListenerWrappersRaw, server.PacketConnWrappersRaw, server.TLSConnPolicies = nil, nil, nil, nil
	}
	if config.AppsRaw["agents"] == nil {
		config.AppsRaw["agents"] = json.RawMessage(`{}`)
	}
	config.AppsRaw["http"], err = json.Marshal(&sites)
	return config, secure, err
}

// redirectLogs redirects all logs to standard error, except discarded ones. The log files belong
// to the Caddy process that runs the configuration.
func redirectLogs(config *caddy.Config) {
	redirect := func(log *caddy.BaseLog) {
		var writer struct {
			Output string `json:"output"`
		}
		if json.Unmarshal(log.WriterRaw, &writer) != nil || writer.Output != "discard" {
			log.WriterRaw, log.CoreRaw = json.RawMessage(`{"output":"stderr"}`), nil
		}
	}
	if config.Logging == nil {
		return
	}
	if config.Logging.Sink != nil {
		redirect(&config.Logging.Sink.BaseLog)
	}
	for _, log := range config.Logging.Logs {
		if log != nil {
			redirect(&log.BaseLog)
		}
	}
}

// headerFlag reads the headers that the flags add to each request.
func headerFlag(flags caddycmd.Flags) (http.Header, error) {
	header := make(http.Header)
	lines, err := flags.GetStringArray("header")
	if err != nil {
		return header, nil //nolint:nilerr // a command without the flag
	}
	repl := caddy.NewReplacer()
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !httpguts.ValidHeaderFieldName(name) {
			return nil, errors.New("--header must have the form 'Name: value'")
		}
		if value, err = repl.ReplaceOrErr(strings.TrimSpace(value), true, true); err != nil {
			return nil, fmt.Errorf("--header %s: %w", name, err)
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("--header %s: the value has characters that are not allowed in a header", name)
		}
		header.Add(name, value)
	}
	return header, nil
}

// request sends one request to the endpoint and returns the response.
func (s *offlineSite) request(r *http.Request) *respond.Recorder {
	response := respond.NewRecorder(maxRecordedBody)
	s.server.ServeHTTP(response, r)
	return response
}

// newRequest returns a request to the endpoint, as if from a client on this machine.
func (s *offlineSite) newRequest() *http.Request {
	r := &http.Request{
		Method:     http.MethodGet,
		URL:        &url.URL{Path: s.target.Path, RawPath: s.target.RawPath, RawQuery: s.query},
		Proto:      "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1,
		Header:     s.header.Clone(),
		Body:       http.NoBody,
		Host:       s.target.Host,
		RemoteAddr: net.JoinHostPort("127.0.0.1", "0"),
		RequestURI: s.target.EscapedPath(),
	}
	if s.target.Scheme == "https" {
		r.TLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: s.target.Hostname()}
	}
	return r
}

const (
	maxRecordedBody = 64 << 10 // bytes of the body of a response
	maxShownBody    = 512      // bytes of the body in an error message
)

// responseText describes a response, for an error message.
func responseText(r *respond.Recorder) string {
	shown := http.StatusText(r.Status)
	if challenge := r.Header().Get("Www-Authenticate"); challenge != "" {
		shown += " (" + challenge + ")"
	}
	if body := strings.Join(strings.Fields(text.Cut(string(r.Body.B), maxShownBody)), " "); body != "" {
		shown += ": " + body
	}
	return shown
}
