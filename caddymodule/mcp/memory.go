package mcp

import (
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/ocp"
)

// memories are what an endpoint remembers of its clients. Successive configurations
// share them: clients can go on with what they began before a reload.
var memories = caddy.NewUsagePool()

// mcpMemory is the Memory of the endpoints with one path and toolset, whose sessions
// are the same (MCP.ofEndpoint).
type mcpMemory struct {
	*mcpadapter.Memory
	key string
}

// Destruct forgets everything.
func (*mcpMemory) Destruct() error { return nil }

func (m *mcpMemory) release() { _, _ = memories.Delete(m.key) }

// remember gives the server of this configuration the Memory of the one before.
func (m *Handler) remember(options *mcpadapter.Options) {
	key := strings.Join([]string{m.Endpoint.Toolset.Key.ShownName(), m.Endpoint.Path}, "\x00")
	value, _, _ := memories.LoadOrNew(key, func() (caddy.Destructor, error) {
		return &mcpMemory{Memory: mcpadapter.NewMemory(), key: key}, nil
	})
	m.memory = value.(*mcpMemory)
	options.Memory = m.memory.Memory
	options.Instance = countEndpoint(m.Endpoint.App, key)
	options.Current = m.currentTools
}

// endpointCount counts the mcp handlers of one configuration that were provisioned, by
// the key of their Memory.
type endpointCount map[string]int

type endpointCountKey struct{}

// countEndpoint returns how many handlers with this key were provisioned before.
func countEndpoint(app *agents.App, key string) int {
	counted := agents.Share(app, endpointCountKey{}, func() endpointCount { return make(endpointCount) })
	counted[key]++
	return counted[key] - 1
}

// currentTools returns the tools that the endpoint offers at the moment, nil if they
// are not known before the next request.
func (m *Handler) currentTools() *ocp.Toolset {
	tools := m.Endpoint.Toolset.Loader.Toolset()
	if m.Endpoint.Agent == "" || tools == nil {
		return tools
	}
	return m.Endpoint.App.Narrow(m.Endpoint.Place, m.Endpoint.Agent, m.Endpoint.Toolset, tools)
}

// replace ends the streams because the configuration ends. Calls that wait for an
// answer of the client, which the next configuration passes on, have grace_period.
func (m *Handler) replace(ctx caddy.Context) {
	if caddy.Exiting() {
		m.server.Close()
		return
	}
	m.server.Replace(m.gracePeriod(ctx))
}

// gracePeriod returns how long requests of an ended configuration may take. Where
// Caddy sets no limit, that is as long as a client may take to answer.
func (m *Handler) gracePeriod(ctx caddy.Context) time.Duration {
	app, err := ctx.AppIfConfigured("http")
	if site, ok := app.(*caddyhttp.App); err == nil && ok && site.GracePeriod > 0 {
		return time.Duration(site.GracePeriod)
	}
	if m.AskTimeout > 0 {
		return time.Duration(m.AskTimeout)
	}
	return mcpadapter.DefaultAskTimeout
}
