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
	offline, err := stripListeners(raw)
	if err != nil {
		return nil, err
	}
	ctx, err := caddy.ProvisionContext(offline.config)
	if err != nil {
		return nil, fmt.Errorf("loading the configuration: %w", err)
	}
	s := &offlineSite{header: header, query: query}
	if s.agents, err = appOf[*site.App](ctx, "agents"); err != nil {
		return nil, err
	}
	sites, err := appOf[*caddyhttp.App](ctx, "http")
	if err != nil {
		return nil, errors.Join(err, s.agents.Cleanup())
	}
	selected, err := selectEndpoint(mcpEndpointsOf(sites), flags.String("site"), flags.String("path"))
	if err != nil {
		return nil, errors.Join(err, s.agents.Cleanup())
	}
	s.server, s.mcp = sites.Servers[selected.server], selected.mcp
	s.target = selected.url(offline.secure[selected.server], flags.String("site"), flags.String("path"))
	kept, err := site.Get[*keptcalls.Section](s.agents)
	if err != nil {
		return nil, errors.Join(err, s.agents.Cleanup())
	}
	kept.KeptCalls = &calllog.Config{Off: true} // the store may be in use by a running Caddy
	return s, s.agents.Start()
}

// appOf returns the app of the configuration with the given name.
func appOf[T caddy.App](ctx caddy.Context, name string) (agents T, err error) {
	loaded, err := ctx.App(name)
	if err != nil {
		return agents, err
	}
	agents, ok := loaded.(T)
	if !ok {
		return agents, fmt.Errorf("the app %s is a %T", name, loaded)
	}
	return agents, nil
}

// close releases the documents. Resources of other modules are released when the process ends.
func (s *offlineSite) close() { _ = s.agents.Cleanup() }

// offlineConfig is a configuration without side effects.
type offlineConfig struct {
	config *caddy.Config
	secure map[string]bool // by server name: whether its clients would use TLS
}

// stripListeners removes the parts of a configuration that listen, write files or open connections
// when it is loaded: the admin endpoint, listeners, certificates and log files.
func stripListeners(raw []byte) (offline offlineConfig, err error) {
	config := new(caddy.Config)
	if err := json.Unmarshal(raw, config); err != nil {
		return offline, fmt.Errorf("reading the configuration: %w", err)
	}
	persist := false
	config.Admin = &caddy.AdminConfig{Disabled: true, Config: &caddy.ConfigSettings{Persist: &persist}}
	redirectLogs(config)

	// These apps only serve connections, and they write to the storage.
	delete(config.AppsRaw, "tls")
	delete(config.AppsRaw, "pki")

	if config.AppsRaw["http"] == nil {
		return offline, errors.New("the configuration has no HTTP site, so it has no MCP endpoint")
	}
	var agents map[string]json.RawMessage
	servers := make(map[string]map[string]json.RawMessage)
	if err := json.Unmarshal(config.AppsRaw["http"], &agents); err != nil {
		return offline, fmt.Errorf("reading the configuration of the http app: %w", err)
	}
	if agents["servers"] != nil {
		if err := json.Unmarshal(agents["servers"], &servers); err != nil {
			return offline, fmt.Errorf("reading the configuration of the http servers: %w", err)
		}
	}
	offline.secure = make(map[string]bool, len(servers))
	for name, server := range servers {
		if server == nil {
			return offline, fmt.Errorf("the http server %q is null", name)
		}
		offline.secure[name] = isSecure(server)
		for _, member := range []string{"listen_protocols", "listener_wrappers", "packet_conn_wrappers", "tls_connection_policies"} {
			delete(server, member)
		}
		https := new(caddyhttp.AutoHTTPSConfig)
		_ = json.Unmarshal(server["automatic_https"], https)
		server["automatic_https"], _ = json.Marshal(caddyhttp.AutoHTTPSConfig{Disabled: true, Skip: https.Skip}) // cannot fail
	}
	if agents["servers"], err = json.Marshal(servers); err != nil {
		return offline, err
	}
	if config.AppsRaw["http"], err = json.Marshal(agents); err != nil {
		return offline, err
	}
	if config.AppsRaw["agents"] == nil {
		config.AppsRaw["agents"] = json.RawMessage(`{}`)
	}
	offline.config = config
	return offline, nil
}

// redirectLogs redirects all logs to standard error, except discarded ones. The log files belong
// to the Caddy process that runs the configuration.
func redirectLogs(config *caddy.Config) {
	if config.Logging == nil {
		return
	}
	logs := make([]*caddy.BaseLog, 0, len(config.Logging.Logs)+1)
	if config.Logging.Sink != nil {
		logs = append(logs, &config.Logging.Sink.BaseLog)
	}
	for _, log := range config.Logging.Logs {
		if log != nil {
			logs = append(logs, &log.BaseLog)
		}
	}
	for _, log := range logs {
		var writer struct {
			Output string `json:"output"`
		}
		if json.Unmarshal(log.WriterRaw, &writer) == nil && writer.Output == "discard" {
			continue
		}
		log.WriterRaw = json.RawMessage(`{"output":"stderr"}`)
		log.CoreRaw = nil
	}
}

// isSecure reports whether clients of a server use TLS.
func isSecure(server map[string]json.RawMessage) bool {
	if policies := string(server["tls_connection_policies"]); policies != "" && policies != "null" {
		return true
	}
	var https struct {
		Disable bool `json:"disable"`
	}
	_ = json.Unmarshal(server["automatic_https"], &https)
	var listen []string
	_ = json.Unmarshal(server["listen"], &listen)
	return !https.Disable && slices.ContainsFunc(listen, func(address string) bool {
		return !strings.HasSuffix(address, ":80")
	})
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
