package mcp

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// toolScopesOff is the value of tool_scopes that lets all callers use all tools.
const toolScopesOff = "off"

// Values of enumerated options.
var (
	toolScopes    = []string{"document", toolScopesOff}
	outputSchemas = []string{string(mcpadapter.OutputOff), string(mcpadapter.OutputLoose), string(mcpadapter.OutputStrict)}
)

// options translates the configuration into the adapter's options.
func (m *Handler) options(ctx caddy.Context) (mcpadapter.Options, error) {
	options := mcpadapter.Options{
		Name:             m.Name,
		Title:            m.Title,
		Version:          m.Version,
		Instructions:     m.Instructions,
		MaxBody:          m.MaxBody,
		AllowedOrigins:   m.Origins,
		AllowedHosts:     m.Hosts,
		PageSize:         m.PageSize,
		ListTTL:          time.Duration(m.ListTTL),
		Versions:         m.Versions,
		SessionTTL:       time.Duration(m.SessionTTL),
		MaxStreams:       m.MaxStreams,
		MaxClientStreams: m.MaxClientStreams,
		KeepAlive:        time.Duration(m.KeepAlive),
		WatchInterval:    time.Duration(m.WatchInterval),
		WatchRate:        m.WatchRate,
		AskTimeout:       time.Duration(m.AskTimeout),
		PublicLists:      m.PublicLists,
		OutputSchema:     mcpadapter.OutputSchema(m.OutputSchema),
		Observe:          agents.AllMetrics.ObserveOperation,
		OnLargeStructure: m.warnLargeStructure,
		Tasks:            m.taskOptions(),
	}
	if options.Name == "" {
		options.Name = m.Endpoint.Parts.ServerName()
	}
	secret, err := m.configuredSecret()
	if err != nil {
		return options, err
	}
	switch server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); {
	case secret != nil:
		options.Secret = m.deriveKey(secret)
	case ok && len(server.Listen) == 0:
		// Sessions of another process cannot reach this one.
	default:
		stored := storedSecret{storage: ctx.Storage(), logger: m.Endpoint.Logger}
		options.LoadSecret = func() []byte { return m.deriveKey(stored.load()) }
	}
	return options, nil
}

// warnLargeStructure warns the operator about results that hosts of MCP Apps may truncate.
func (m *Handler) warnLargeStructure(tool *tool.Tool, size int) {
	m.Endpoint.Logger.Warn("structuredContent of a tool exceeds the 10 KB that MCP Apps hosts recommend; make the API's response smaller",
		zap.String("tool", tool.Name), zap.String("toolset", m.Endpoint.Parts.Name()), zap.Int("size", size))
}

// toolsetConfig returns the options of the handler's own toolset, or nil.
func (m *Handler) toolsetConfig() *agents.ToolsetConfig {
	if m.OutputSchema == "" || m.OutputSchema == string(mcpadapter.OutputOff) {
		return m.Document
	}
	return agents.WithResponseSchemas(m.Document)
}

// configuredSecret returns the configured secret. It returns nil if none is configured.
func (m *Handler) configuredSecret() ([]byte, error) {
	if m.Secret == "" {
		return nil, nil
	}
	secret, err := caddy.NewReplacer().ReplaceOrErr(m.Secret, true, true)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	if len(secret) < directive.MinSecret {
		return nil, fmt.Errorf("secret has %d bytes and needs at least %d; create one with `openssl rand -base64 32`", len(secret), directive.MinSecret)
	}
	return []byte(secret), nil
}

// deriveKey derives the endpoint's key from a secret. Sessions and sealed state of one
// endpoint are therefore invalid at another.
func (m *Handler) deriveKey(secret []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(m.Endpoint.Parts.ShownName() + "\x00" + m.Endpoint.Path))
	return mac.Sum(nil)
}

// validateOptions returns an error for values that are out of range or unknown.
func (m *Handler) validateOptions() error {
	for _, option := range []struct {
		name  string
		value int64
	}{
		{"page_size", int64(m.PageSize)},
		{"max_body", m.MaxBody},
		{"session_ttl", int64(m.SessionTTL)},
		{"max_streams", int64(m.MaxStreams)},
		{"max_client_streams", int64(m.MaxClientStreams)},
		{"keep_alive", int64(m.KeepAlive)},
		{"ask_timeout", int64(m.AskTimeout)},
		{"task_after", int64(m.TaskAfter)},
		{"task_ttl", int64(m.TaskTTL)},
		{"watch_interval", int64(m.WatchInterval)},
		{"watch_rate", int64(m.WatchRate)},
	} {
		if err := directive.NotNegative(option.name, option.value); err != nil {
			return err
		}
	}
	if m.TaskTTL > 0 && m.TaskAfter == 0 {
		return errors.New("task_ttl is set without task_after: set how long a call runs before it becomes a task, as in: task_after 10s")
	}
	if time.Duration(m.TaskTTL) > maxTaskTTL {
		return fmt.Errorf("task_ttl %s is longer than %s", time.Duration(m.TaskTTL), maxTaskTTL)
	}
	for _, version := range m.Versions {
		if err := checkVersion(version); err != nil {
			return fmt.Errorf("versions: %w", err)
		}
	}
	for _, option := range []struct {
		name, value string
		words       []string
	}{
		{"output_schema", m.OutputSchema, outputSchemas},
		{"tool_scopes", m.ToolScopes, toolScopes},
	} {
		if option.value != "" && !slices.Contains(option.words, option.value) {
			return fmt.Errorf("%s %q is not valid; use %s", option.name, option.value, strings.Join(option.words, " or "))
		}
	}
	if m.Discovery != nil {
		return m.Discovery.Check()
	}
	return nil
}

// checkVersion returns an error if the text is not a supported revision of the protocol.
func checkVersion(version string) error {
	if slices.Contains(mcpadapter.Versions(), version) {
		return nil
	}
	return fmt.Errorf("unknown protocol revision %q; known are %s", version, strings.Join(mcpadapter.Versions(), ", "))
}
