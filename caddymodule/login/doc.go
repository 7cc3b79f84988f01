// Package login is the directive `agent_login`: an authorization server for MCP clients in front of the company's identity provider. The
// server itself is in package authserver.
package login
