package mcp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/once"
)

// toolScopesOff is the value of tool_scopes that lets all callers use all tools.
const toolScopesOff = "off"

// keepAliveOff is the value of keep_alive off (directive.Block.Duration).
const keepAliveOff = -1

// Values of enumerated options.
var (
	toolScopes    = []string{"document", toolScopesOff}
	outputSchemas = []string{string(mcpadapter.OutputOff), string(mcpadapter.OutputLoose), string(mcpadapter.OutputStrict)}
)

// options translates the configuration into the adapter's options.
func (m *Handler) options(ctx caddy.Context) (mcpadapter.Options, error) {
	options := m.Options
	options.ListTTL, options.SessionTTL = time.Duration(m.ListTTL), time.Duration(m.SessionTTL)
	options.KeepAlive, options.AskTimeout = time.Duration(m.KeepAlive), time.Duration(m.AskTimeout)
	options.WatchInterval = time.Duration(m.WatchInterval)
	options.Observe, options.OnLargeStructure, options.Warn = observe, m.warnLargeStructure, site.WarnUse
	options.Tasks = m.taskOptions()
	if options.Name == "" {
		options.Name = m.Endpoint.Parts.ServerName()
	}
	recorded, err := m.Idempotency.Provision(m.Endpoint)
	if err != nil {
		return options, err
	}
	if recorded != nil {
		options.Once = once.New(*recorded)
	}
	options.Secrets, err = m.secrets(ctx)
	return options, err
}

// warnLargeStructure warns the operator about results that hosts of MCP Apps may truncate.
func (m *Handler) warnLargeStructure(tool *tools.Tool, size int) {
	m.Endpoint.Logger.Warn("structuredContent of a tool exceeds the 10 KB that MCP Apps hosts recommend; make the API's response smaller",
		zap.String("tool", tool.Name), zap.String("toolset", m.Endpoint.Parts.Name()), zap.Int("size", size))
}

// toolsetConfig returns the options of the handler's own toolset, or nil.
func (m *Handler) toolsetConfig() *app.ToolsetConfig {
	if !m.listsResponses() {
		return m.Document
	}
	return app.WithResponseSchemas(m.Document)
}

// listsResponses reports whether lists have response schemas.
func (m *Handler) listsResponses() bool {
	return m.OutputSchema != "" && m.OutputSchema != mcpadapter.OutputOff
}

// validateOptions returns an error for values that are out of range or unknown.
func (m *Handler) validateOptions() error {
	err := errors.Join(
		directive.NotNegative("page_size", int64(m.PageSize)),
		directive.NotNegative("max_body", m.MaxBody),
		directive.NotNegative("session_ttl", int64(m.SessionTTL)),
		directive.NotNegative("max_streams", int64(m.MaxStreams)),
		directive.NotNegative("ask_timeout", int64(m.AskTimeout)),
		directive.NotNegative("task_after", int64(m.TaskAfter)),
		directive.NotNegative("task_ttl", int64(m.TaskTTL)),
		directive.NotNegative("watch_interval", int64(m.WatchInterval)),
		directive.NotNegative("watch_rate", int64(m.WatchRate)),
	)
	err = errors.Join(err, m.Idempotency.Validate())
	if m.KeepAlive != keepAliveOff {
		err = errors.Join(err, directive.NotNegative("keep_alive", int64(m.KeepAlive)))
	}
	if err != nil {
		return err
	}
	for _, option := range []struct {
		name           string
		set, pointless bool
		reason         string
	}{
		{"task_ttl", m.TaskTTL > 0, m.TaskAfter == 0, "without task_after: set how long a call runs before it becomes a task, as in: task_after 10s"},
		{"public_lists", m.PublicLists, m.ListTTL < 0, "with list_ttl off"},
		{"pins", len(m.Pins) > 0, m.Search == app.SearchOff, "with search off, which lists all tools"},
	} {
		if option.set && option.pointless {
			return fmt.Errorf("%s has no effect %s", option.name, option.reason)
		}
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
		{"output_schema", string(m.OutputSchema), outputSchemas},
		{"tool_scopes", m.ToolScopes, toolScopes},
	} {
		if option.value != "" && !slices.Contains(option.words, option.value) {
			return fmt.Errorf("%s %q is not valid; use %s", option.name, option.value, strings.Join(option.words, " or "))
		}
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
