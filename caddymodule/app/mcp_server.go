package app

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/source"
)

// MCPServerModule is the ID of the guest module of the option mcp_server, which is an MCPServer: see package mcpservers.
const MCPServerModule = "agents.mcp_server"

// mcpServer has the options of the MCP server that a toolset is made from. It is not provisioned.
type mcpServer interface {
	// Location checks the options, and returns the address of the server without secrets.
	Location(toolset string) (string, error)

	// Withholds reports whether tools with suspicious texts are withheld until a lock approves them.
	Withholds() bool

	// Warn adds a warning to the report for each suspicious text. Data is the document that was made from the server's tools.
	Warn(set *tools.Toolset, data []byte)

	// Open returns the server. It does not connect to it.
	Open(toolset string, logger *zap.Logger) (OpenMCPServer, error)
}

// OpenMCPServer is the server, which outlives a reload. It is the source of an OpenAPI document that is made of its tools.
type OpenMCPServer interface {
	source.Source

	// Use sets what the server needs of a configuration. The credentials are for listing tools.
	Use(ctx caddy.Context, credentials credential.Set, logger *zap.Logger) error

	// Watch calls changed when the tools of the server have changed, until Unwatch.
	Watch(changed func())
	Unwatch()

	// Close closes the connections.
	Close()
}

// readMCPServer reads the option mcp_server.
func (c *ToolsetConfig) readMCPServer(b *directive.Block) error {
	if err := b.Once(); err != nil {
		return err
	}
	if _, err := caddy.GetModule(MCPServerModule); err != nil {
		return b.WrapErr(errNoMCPServers)
	}
	module, err := caddyfile.UnmarshalModule(b.Dispenser, MCPServerModule)
	if err == nil {
		c.MCPServer, err = json.Marshal(module)
	}
	return err
}

var errNoMCPServers = errors.New("this build of Caddy does not have mcp_server: build it with github.com/fairwayhq/fairway/caddymodule/mcpservers")

// server returns the options of the MCP server, or nil for a toolset of an OpenAPI document.
func (c *ToolsetConfig) server() (mcpServer, error) {
	if c.MCPServer == nil {
		return nil, nil
	}
	module, err := caddy.GetModule(MCPServerModule)
	if err != nil {
		return nil, errNoMCPServers
	}
	server := module.New()
	if err := caddy.StrictUnmarshalJSON(c.MCPServer, server); err != nil {
		return nil, fmt.Errorf("mcp_server: %w", err)
	}
	return server.(mcpServer), nil
}
