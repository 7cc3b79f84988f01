package stdio

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/commands"
	"github.com/fairwayhq/fairway/caddymodule/mcpdiscovery"
)

// registrySchema is the schema of server.json that the MCP registry accepts.
const registrySchema = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

// serverJSONCommand returns the command `caddy mcp server-json`.
func serverJSONCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "server-json --url <URL> [--name <name>] --config <path> | --openapi <document>",
		Short: "Prints the server.json of an endpoint for the MCP registry",
		Long: `
Prints the server.json with which an endpoint is published in the MCP registry: the
name, title, description, version and public URL of the endpoint. The endpoint is
selected as in caddy mcp. The command sends no request to the API.

--url is the public URL of the endpoint, such as https://api.example.com/mcp. It may
be omitted if the site has one host name.

--name is the name in the registry: the reverse of a domain that you own, a slash
and a name, such as com.example/trains. Default: derived from the host of the URL
and the name of the toolset.

The registry is in preview, and its format may change.
`,
		Args: cobra.NoArgs,
	}
	mcpFlags(cmd)
	cmd.Flags().String("url", "", "Public URL of the endpoint")
	cmd.Flags().String("name", "", "Name in the registry")
	cmd.Flags().String("description", "", "Description of the server, at most 100 characters (default: the document's description)")
	cmd.RunE = commands.RunE(func(flags caddycmd.Flags) error { return printServerJSON(cmd, flags) })
	return cmd
}

// printServerJSON prints the server.json of the endpoint that the flags select.
func printServerJSON(cmd *cobra.Command, flags caddycmd.Flags) error {
	discovery := &mcpdiscovery.Discovery{Name: flags.String("name"), URL: flags.String("url")}
	if err := discovery.Check(); err != nil {
		return err
	}
	site, err := openOfflineSite(flags, false)
	if err != nil {
		return err
	}
	defer site.close()
	card, err := site.registryCard(discovery)
	if err != nil {
		return err
	}
	if description := flags.String("description"); description != "" {
		card.Description = mcpdiscovery.CardText(description, mcpdiscovery.MaxCardText)
	}
	text, err := json.MarshalIndent(card, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
	return err
}

// registryCard returns the endpoint's server.json.
func (s *offlineSite) registryCard(discovery *mcpdiscovery.Discovery) (mcpdiscovery.ServerCard, error) {
	options := *discovery
	if configured := mcpdiscovery.Of(s.mcp); configured != nil {
		options.Name, options.URL = cmp.Or(options.Name, configured.Name), cmp.Or(options.URL, configured.URL)
	}
	at := options.URL
	if at == "" {
		if s.target.Hostname() == "localhost" {
			return mcpdiscovery.ServerCard{}, errors.New("the public URL of the endpoint is unknown; give it with --url")
		}
		at = s.target.String()
	}
	nothing := caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error { return nil })
	tools, err := s.mcp.AwaitTools(s.newRequest().WithContext(context.Background()), nothing)
	if err != nil {
		return mcpdiscovery.ServerCard{}, err
	}
	card := mcpdiscovery.Card(s.mcp, &options, at, tools)
	card.Schema = registrySchema
	for i := range card.Remotes {
		card.Remotes[i].Versions = nil // not part of this format
	}
	return card, nil
}
