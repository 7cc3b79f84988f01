package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/auth"
	"github.com/fairwayhq/fairway/caddymodule/commands"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/internal/oauth"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "agents",
		Usage: "calls | tail | top | ready | runs | replay | reviews | events | audit | store | user | whoami",
		Short: "Shows what agents do, and what an access token may do",
		Long: `
Finds the tool calls of a running Caddy (calls), follows them (tail) and counts them
(top). Checks whether it is ready (ready). Lists the runs of agents (runs), and what
they have used (usage). Tries changed rules on recorded calls (replay). Lists and
decides reviews (reviews). Lists the events of webhooks (events). Checks the audit
archive (audit). Backs up and checks the store (store). Exports and erases what is
stored about a user (user). Explains an access token (whoami).
`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.AddCommand(commands.CallsCommand(), commands.TailCommand(), commands.TopCommand(), commands.ReportCommand(), commands.ReadyCommand(), commands.RunsCommand(), commands.ReplayCommand(),
				commands.UsageCommand(), commands.ReviewsCommand(), commands.EventsCommand(), commands.AuditCommand(), commands.StoreCommand(), commands.UserCommand(), whoamiCommand())
			commands.RequireSubcommand(cmd)
		},
	})
}

// exitCodeRefused is the exit status of `caddy agents whoami` if no endpoint accepts the token.
const exitCodeRefused = 4

func whoamiCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "whoami --config <path> [--adapter <name>] --token <file> [--json]",
		Short: "Explains an access token",
		Long: `
Verifies an access token as agent_auth of each endpoint in the configuration does.
Prints its issuer, signature, audience and expiry; the user, groups and scopes, with
the claims that they come from; and the tools that the token may call, with the
reason for others. A rule (allow) that depends on arguments is decided at the call.

The token is read from a file, or from standard input with --token -. It cannot be
an argument, because lists of processes show arguments. The token is never printed.

The configuration is loaded, but nothing listens. The keys of the issuers are
fetched, and so are documents that are URLs.

The exit status is 4 if no endpoint accepts the token, and 1 for other failures.
`,
		Example: "  caddy agents whoami --config Caddyfile --token token.txt",
		Args:    cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringP("config", "c", "", "Configuration file")
	f.StringP("adapter", "a", "", "Name of the config adapter, if the file is not JSON")
	f.String("token", "", "File with the access token, or - for standard input")
	f.Bool("json", false, "Print JSON")
	cmd.RunE = commands.RunE(func(flags caddycmd.Flags) error {
		found, err := explainToken(cmd, flags)
		if err == nil {
			err = found.write(cmd.OutOrStdout(), flags.Bool("json"))
		}
		if err == nil && !found.Accepted {
			return &commands.ExitError{Status: exitCodeRefused, Err: errors.New("no endpoint of the configuration accepts the token")}
		}
		return err
	})
	return cmd
}

// readToken reads the token. Its errors do not quote what --token names, which may be a token by mistake.
func readToken(from string, stdin io.Reader) (string, error) {
	switch from {
	case "":
		return "", errors.New("give the file with the access token with --token, or --token - for standard input")
	case "-":
	default:
		file, err := os.Open(from)
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			return "", fmt.Errorf("--token names a file that cannot be read: %w", failed.Err)
		}
		defer file.Close()
		stdin = file
	}
	text, err := io.ReadAll(io.LimitReader(stdin, 2*oauth.MaxToken))
	token := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("the access token cannot be read: %w", err)
	case token == "":
		return "", errors.New("--token gives no access token: the file or standard input is empty")
	case strings.ContainsAny(token, " \n"):
		return "", errors.New("the file of --token must have the access token alone, without Bearer")
	}
	return token, nil
}

// A whoami is the output of the command.
type whoami struct {
	Accepted  bool              `json:"accepted"` // by one of the endpoints
	Endpoints []whoamiAtAddress `json:"endpoints"`
}

// whoamiAtAddress is what one agent_auth and the endpoint after it make of the token.
type whoamiAtAddress struct {
	URL      string `json:"url"`
	Protocol string `json:"protocol"`
	*auth.Explanation
	Tools   []route.ToolAccess `json:"tools"`
	NoTools string             `json:"no_tools,omitempty"` // why the tools are unknown
}

func explainToken(cmd *cobra.Command, flags caddycmd.Flags) (*whoami, error) {
	if flags.String("config") == "" || flags.String("config") == "-" {
		return nil, errors.New("give the file of the configuration with --config")
	}
	token, err := readToken(flags.String("token"), cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	raw, _, _, err := caddycmd.LoadConfig(flags.String("config"), flags.String("adapter"))
	if err != nil {
		return nil, err
	}
	offline, err := loadOffline(raw, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = offline.agents.Cleanup() }()
	ctx, cancel := context.WithTimeout(cmd.Context(), commands.MaxWait)
	defer cancel()
	found := new(whoami)
	for _, e := range endpointsOf(offline.http) {
		server, secure := offline.http.Servers[e.server], offline.secure[e.server]
		for n := 1; ; n++ {
			r := e.request(ctx, server, secure)
			handler := authOf(server, r, n)
			if handler == nil {
				break
			}
			at := whoamiAtAddress{URL: e.address(server, secure).String(), Protocol: e.tools.Protocol, Explanation: handler.Explain(r, token)}
			if at.Refused == "" {
				found.Accepted = true
				if at.Tools, err = route.ExplainTools(e.tools, r); err != nil {
					at.NoTools = err.Error()
				}
			}
			found.Endpoints = append(found.Endpoints, at)
		}
	}
	if len(found.Endpoints) == 0 {
		return nil, errors.New("the configuration has no endpoint with agent_auth before it")
	}
	return found, nil
}

// address returns the URL of the endpoint, with the port of its site.
func (e *endpoint) address(server *caddyhttp.Server, secure bool) *url.URL {
	u := e.url(secure, "", "")
	if slices.Contains(server.AutoHTTPS.Skip, u.Hostname()) { // http:// in a Caddyfile
		u.Scheme, secure = "http", false
	}
	if len(server.Listen) > 0 && u.Port() == "" {
		listen, err := caddy.ParseNetworkAddress(server.Listen[0])
		if port := strconv.Itoa(int(listen.StartPort)); err == nil && !listen.IsUnixNetwork() && port != map[bool]string{false: "80", true: "443"}[secure] {
			u.Host += ":" + port
		}
	}
	return u
}

// request returns a request to the endpoint, as a handler of the server gets it.
func (e *endpoint) request(ctx context.Context, server *caddyhttp.Server, secure bool) *http.Request {
	site := offlineSite{target: e.address(server, secure), header: make(http.Header)}
	return caddyhttp.PrepareRequest(site.newRequest().WithContext(ctx), caddy.NewReplacer(), nil, server)
}

// authOf returns the nth handler agent_auth that the request passes, and changes the path of the request as the handlers before it do. It returns nil if
// there are fewer.
func authOf(server *caddyhttp.Server, r *http.Request, n int) (found *auth.Handler) {
	named := maps.Clone(server.NamedRoutes)
	var visitRoutes func(routes caddyhttp.RouteList)
	visit := func(handlers []caddyhttp.MiddlewareHandler) {
		for _, handler := range handlers {
			switch handler := handler.(type) {
			case *auth.Handler:
				if n--; n == 0 {
					found = handler
				}
			case *rewrite.Rewrite:
				handler.Rewrite(r, r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer))
			case *caddyhttp.Subroute:
				visitRoutes(handler.Routes)
			case *caddyhttp.Invoke:
				if invoked := named[handler.Name]; invoked != nil {
					delete(named, handler.Name) // prevents endless recursion if a named route invokes itself
					visitRoutes(caddyhttp.RouteList{*invoked})
					named[handler.Name] = invoked
				}
			}
			if found != nil {
				return
			}
		}
	}
	visitRoutes = func(routes caddyhttp.RouteList) {
		for i := range routes {
			if matches, err := routes[i].MatcherSets.AnyMatchWithError(r); err != nil || !matches {
				continue
			}
			if visit(routes[i].Handlers); found != nil {
				return
			}
		}
	}
	visitRoutes(server.Routes)
	return found
}

// write prints the output. Texts of the token are quoted, because they may have control characters.
func (w *whoami) write(out io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(w)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, e := range w.Endpoints {
		fmt.Fprintf(table, "%s %s\n", e.Protocol, e.URL)
		verdict := "accepted"
		if e.Refused != "" {
			verdict = "refused: " + e.Refused
		}
		fmt.Fprintf(table, "  token\t%s\n  issuer\t%q\n  signature\t%s\n", verdict, e.Issuer, e.Signature)
		fmt.Fprintf(table, "  audience\t%q, wanted %q\n  expires\t%s\n", e.Audience, e.Wanted, e.Expires.UTC().Format(time.RFC3339))
		fmt.Fprintf(table, "  user\t%q (claim %s)\n", e.User, e.UserClaim)
		fmt.Fprintf(table, "  groups\t%q (claims %s)\n", e.Groups, strings.Join(e.GroupClaims, ", "))
		if e.NoGroups != "" {
			fmt.Fprintf(table, "  \tunknown: %s\n", e.NoGroups)
		}
		fmt.Fprintf(table, "  scopes\t%q (claims %s)\n", e.Scopes, strings.Join(e.ScopeClaims, ", "))
		if e.NoTools != "" {
			fmt.Fprintf(table, "  tools\tunknown: %s\n", e.NoTools)
		}
		toolset := ""
		for _, t := range e.Tools {
			if t.Toolset != toolset {
				toolset = t.Toolset
				fmt.Fprintf(table, "  toolset %s\n", toolset)
			}
			answer := "yes"
			if t.Refused != "" {
				answer = "no: " + t.Refused
			}
			fmt.Fprintf(table, "    %s\t%s\n", t.Tool, answer)
		}
	}
	return table.Flush()
}
