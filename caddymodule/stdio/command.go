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

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/mcp"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "mcp",
		Usage: "--config <path> [--adapter <name>] [--site <host>] [--path <path>] [--header <name: value>] | --openapi <document> --upstream <URL> [--header <name: value>]",
		Short: "Serves MCP on standard input and output",
		Long: `
Serves a Model Context Protocol server on standard input and output, for clients
that start their servers as programs: an endpoint of a configuration, or the
operations of an OpenAPI document.

With --config it is the endpoint that the directive mcp of a site makes, with all
the handlers in front of it and behind. The configuration is loaded, but nothing
listens, no certificates are managed, and only the agents app is started. --site
and --path choose the endpoint if there are several. What authentication asks for
is given by --header.

With --openapi the tools are those of the document, a file or an http(s) URL, and
--upstream is the URL of the API. A path in it takes the place of the path of the
document's first server. --include, --exclude, --schemas and --refs are those of
caddy tools.

--header is sent with the client's request, and so with every call that the
handlers in front let through. It may be given more than once; placeholders such
as {env.API_TOKEN} keep secrets out of the list of processes:

    caddy mcp --openapi trains.yaml --upstream https://api.example.com \
        --header 'Authorization: Bearer {env.API_TOKEN}'

Logs go to standard error. The command ends with its standard input, once what
was asked for has been answered.
`,
		CobraFunc: func(cmd *cobra.Command) {
			mcpFlags(cmd)
			cmd.Flags().StringArray("header", nil, "A header of the client's request, as 'Name: value'")
			cmd.Args = cobra.NoArgs
			cmd.RunE = caddycmd.WrapCommandFuncForCobra(commandMCP)
			cmd.AddCommand(serverJSONCommand())
		},
	})
}

// mcpFlags declares the flags that select an endpoint of a configuration, or create one from a
// document.
func mcpFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringP("config", "c", "", "Configuration file")
	f.StringP("adapter", "a", "", "Name of the config adapter, if the file is no JSON")
	f.String("site", "", "Host of the site, if the configuration has several")
	f.String("path", "", "Path of the endpoint, if the site has several")
	f.String("openapi", "", "OpenAPI document whose operations become tools")
	f.String("upstream", "", "URL of the API that the document describes")
	f.StringArray("include", nil, "Choose operations: tag=…, operation=…, path=… or method=…, with commas between values")
	f.StringArray("exclude", nil, "Leave operations out, likewise")
	f.String("schemas", "", "What happens to shared schemas: auto, inline or defs")
	f.String("refs", "", "Directory below which $refs may name other files")
}

// stdioGrace is how long running requests may continue after the client or the operator ends
// the program.
const stdioGrace = 5 * time.Second

// commandMCP serves one client on standard input and output.
func commandMCP(flags caddycmd.Flags) (int, error) {
	in, out := os.Stdin, os.Stdout
	// Other output on standard output would break the protocol.
	os.Stdout = os.Stderr
	site, err := openOfflineSite(flags, true)
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	defer site.close()
	if err := site.serveStdio(in, out); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	return caddy.ExitCodeSuccess, nil
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
	case response.status >= 400:
		return fmt.Errorf("%s does not let the client in: %d %s; give what it asks for by --header, or another --path",
			s.target, response.status, response.text())
	default:
		return errors.New("nothing serves MCP at " + s.target.String() + ": give the endpoint's full path by --path")
	}
}
