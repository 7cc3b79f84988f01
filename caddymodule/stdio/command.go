package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/commands"
	"github.com/fairwayhq/fairway/caddymodule/mcp"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "mcp",
		Usage: "--config <path> [--adapter <name>] [--site <host>] [--path <path>] [--tools all|search] [--header <name: value>] | --openapi <document> --upstream <URL> [--tools all|search] [--header <name: value>]",
		Short: "Serves MCP on standard input and output",
		Long: `
Serves a Model Context Protocol (MCP) server on standard input and output, for
clients that start their servers as programs. The server is an endpoint of a
configuration, or has the operations of an OpenAPI document as its tools.

With --config, the server is the endpoint of a directive mcp, with all handlers
before and after it. The configuration is loaded, but nothing listens, no
certificates are managed, and only the agents app is started. --site and --path
select the endpoint if there are several. If the site requires credentials, give
them with --header.

With --openapi, the tools are those of the document, which is a file or an http(s)
URL. --upstream is the URL of the API. Its path, if any, replaces the path of the
document's first server. --include, --exclude, --schemas and --refs work as in
caddy tools.

--header adds a header to the client's request, and so to every tool call that the
handlers before the endpoint let through. It may be given more than once. Use
placeholders such as {env.API_TOKEN} to keep secrets out of the process list:

    caddy mcp --openapi trains.yaml --upstream https://api.example.com \
        --header 'Authorization: Bearer {env.API_TOKEN}'

An endpoint with a very long list of tools lists tools that search for the others
instead. --tools all lists all tools, and --tools search those that search.

Logs are written to standard error. The command ends when its standard input ends
and the pending requests have their responses.
`,
		CobraFunc: func(cmd *cobra.Command) {
			callFlags(cmd)
			cmd.Flags().StringArray("header", nil, "A header of the client's request, as 'Name: value'")
			cmd.Args = cobra.NoArgs
			cmd.RunE = commands.RunE(commandMCP)
			cmd.AddCommand(serverJSONCommand(), skillsCommand())
		},
	})
}

// callFlags declares the flags of an endpoint whose tools are called.
func callFlags(cmd *cobra.Command) {
	mcpFlags(cmd)
	cmd.Flags().String("tools", "", "What to list: all tools, or search for tools that find the others (default: as the endpoint does)")
}

// mcpFlags declares the flags that select an endpoint of a configuration, or create one from a
// document.
func mcpFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringP("config", "c", "", "Configuration file")
	f.StringP("adapter", "a", "", "Name of the config adapter, if the file is not JSON")
	f.String("site", "", "Host of the site, if the configuration has several")
	f.String("path", "", "Path of the endpoint, if the site has several")
	f.String("openapi", "", "OpenAPI document whose operations become tools")
	f.String("upstream", "", "URL of the API that the document describes")
	f.StringArray("include", nil, "Use only these operations: tag=…, operation=…, path=… or method=…, values separated by commas")
	f.StringArray("exclude", nil, "Do not use these operations, in the same form")
	f.String("schemas", "", "How to list shared schemas: auto, inline or defs (default: auto)")
	f.String("refs", "", "Directory that $refs to other files may refer into (default: none)")
}

// stdioGrace is how long running requests may continue after the client or the operator ends
// the program.
const stdioGrace = 5 * time.Second

// commandMCP serves one client on standard input and output.
func commandMCP(flags caddycmd.Flags) error {
	in, out := os.Stdin, os.Stdout
	// Other output on standard output would break the protocol.
	os.Stdout = os.Stderr
	site, err := openOfflineSite(flags, true)
	if err != nil {
		return err
	}
	defer site.close()
	return site.serveStdio(in, out)
}

// serveStdio serves one client until its input ends or the program receives a signal. It then
// waits until the pending requests have their responses, up to stdioGrace.
func (s *offlineSite) serveStdio(in io.Reader, out io.Writer) error {
	interrupted, stopNotify := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stopNotify()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// Reading standard input cannot be interrupted. The server therefore reads a pipe, which
	// can be closed.
	reader, writer := io.Pipe()
	go func() {
		_, err := io.Copy(writer, in)
		_ = writer.CloseWithError(err)
		time.AfterFunc(stdioGrace, cancel)
	}()
	defer context.AfterFunc(interrupted, func() {
		_ = writer.Close()
		time.AfterFunc(stdioGrace, cancel)
	})()

	client := &mcp.StdioClient{In: reader, Out: out}
	response := s.request(s.newRequest().WithContext(mcp.ContextWithStdio(ctx, client)))
	switch {
	case client.Served:
		return client.Err
	case response.Status >= 400:
		return fmt.Errorf("%s rejects the client: %d %s; give the required credentials with --header, or another --path",
			s.target, response.Status, responseText(response))
	default:
		return errors.New("no endpoint serves MCP at " + s.target.String() + "; give the endpoint's full path with --path")
	}
}
