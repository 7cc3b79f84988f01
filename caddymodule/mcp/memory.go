package mcp

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/mcpadapter"
)

// memories hold what endpoints store about their clients. Successive configurations share them,
// so that clients can continue after a reload.
var memories = caddy.NewUsagePool()

// sharedMemory is the Memory that endpoints with the same path and toolset share. They also accept
// each other's sessions (see ofEndpoint).
type sharedMemory struct {
	*mcpadapter.Memory
	key string
}

// Destruct does nothing: the garbage collector frees the memory.
func (*sharedMemory) Destruct() error { return nil }

// release gives up the memory.
func (m *sharedMemory) release() { _, _ = memories.Delete(m.key) }

// openMemory opens the memory of the endpoint, which is that of the previous configuration.
func (m *Handler) openMemory() {
	key := strings.Join([]string{m.Endpoint.Parts.ShownName(), m.Endpoint.Path}, "\x00")
	value, _, _ := memories.LoadOrNew(key, func() (caddy.Destructor, error) {
		return &sharedMemory{Memory: mcpadapter.NewMemory(site.WarnUse), key: key}, nil
	})
	m.memory = value.(*sharedMemory)
}

// shareMemory gives the server of this configuration the Memory of the previous one.
func (m *Handler) shareMemory(options *mcpadapter.Options) {
	options.Memory = m.memory.Memory
	options.Instance = countEndpoint(m.Endpoint.App, m.memory.key)
	options.Current = m.Endpoint.Parts.Loaded
	m.Endpoint.App.OnConnected(m.memory.Connected)
	options.Elicited = m.Endpoint.AwaitAccount
}

// endpointCount counts the provisioned mcp handlers of one configuration by the key of their
// Memory.
type endpointCount map[string]int

// endpointCountKey is the key of endpointCount in site.Share.
type endpointCountKey struct{}

// countEndpoint returns how many handlers with this key have been provisioned before.
func countEndpoint(agents *app.App, key string) int {
	counted := site.Share(agents.Site, endpointCountKey{}, func() endpointCount { return make(endpointCount) })
	counted[key]++
	return counted[key] - 1
}

// closeStreams ends the streams because the configuration ends. Calls that wait for a response of
// the client continue for the grace period; the next configuration forwards the response. Without a
// limit in Caddy's configuration, it is as long as a client may take to respond.
func (m *Handler) closeStreams(ctx caddy.Context) {
	if caddy.Exiting() {
		m.server.Close()
		return
	}
	m.server.Replace(cmp.Or(max(site.GracePeriod(ctx), 0), time.Duration(m.AskTimeout), mcpadapter.DefaultAskTimeout))
}

// drain waits for the calls of tasks if the process ends. After a reload they simply go on.
func (m *Handler) drain(ctx context.Context) error {
	if caddy.Exiting() {
		m.server.Drain(ctx)
	}
	return nil
}
