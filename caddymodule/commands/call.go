package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/result"
	"github.com/fairwayhq/fairway/tools/security"
)

// callCommand returns the command `caddy tools call`.
func callCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "call NAME [ARGUMENTS] --document <document> | --config <path> [--toolset <name>] [--dry-run] [--api <URL> | --yes]",
		Short: "Calls a tool, or prints the request that the call becomes",
		Long: `
Calls a tool with arguments, a JSON object, and prints the response as a model reads
it. Its status, duration and estimated tokens are printed to standard error if the
output is a pipe. On a terminal, JSON is indented and has colors, unless NO_COLOR is set.

The tool is one of an OpenAPI document (--document), or of a toolset in a Caddy
configuration (--config, and --toolset if it has several). With --config, the
shapes and the credentials of the toolset apply.

--dry-run prints the HTTP request that the call becomes and sends nothing.
Credentials, and values of {env.*} and {file.*}, are printed as ***.

Otherwise the request is sent directly to the API, not through the handlers of a
site: to the URL given with --api, or to the server that the document names if
--yes is given. Nothing is sent without one of them.

--header "Name: value" adds a header, such as a credential. --placeholder
http.auth.user.id=grace gives a placeholder of a fixed value.
`,
		Example: "  caddy tools call getTrip '{\"id\": \"7\"}' --document openapi.yaml --dry-run",
		Args:    cobra.RangeArgs(1, 2),
	}
	f := cmd.Flags()
	f.String("document", "", "The OpenAPI document: a file, an http(s) URL, or - for standard input")
	addConfigFlags(cmd)
	f.StringArray("overlay", nil, "Apply this OpenAPI Overlay to the document first; repeatable")
	f.String("refs", "", "Directory that $refs to other files may refer into (default: none)")
	f.String("base-path", "", "Path prefix of the API (default: the path of the first server)")
	f.Bool("dry-run", false, "Print the request and send nothing")
	f.String("api", "", "Send the request to this API, such as https://api.example.com")
	f.Bool("yes", false, "Send the request to the server that the document names")
	f.StringArray("header", nil, "A header of the request, as \"Name: value\"; repeatable")
	f.StringArray("placeholder", nil, "A placeholder of fixed values, as name=value; repeatable")
	cmd.RunE = RunE(func(flags caddycmd.Flags) error { return callTool(cmd, flags) })
	return cmd
}

// addConfigFlags adds the flags that choose a toolset of a configuration.
func addConfigFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringP("config", "c", "", "Caddy configuration with the toolset, in place of a document")
	f.StringP("adapter", "a", "", "Name of the config adapter, if the file is not JSON")
	f.String("toolset", "", "The toolset of the configuration, if it has several")
}

// A toolCall is a call of `caddy tools call`.
type toolCall struct {
	tools       *tools.Toolset
	name        string
	arguments   []byte
	limits      app.Limits
	credentials *security.Supplement // of the toolset and of --header; nil if there are none
	replace     func(text string) (string, error)
	secrets     []string // values of {env.*} and {file.*} that replace returned
}

func callTool(cmd *cobra.Command, flags caddycmd.Flags) error {
	c, err := readCall(cmd, flags)
	if err != nil {
		return err
	}
	if flags.Bool("dry-run") {
		return c.print(cmd.OutOrStdout())
	}
	origin := flags.String("api")
	switch {
	case origin != "" && flags.Bool("yes"):
		return errors.New("--api and --yes are both given; remove --yes, which sends to the server of the document")
	case origin != "":
	case c.tools.Origin == "":
		return errors.New("the document names no server: give the address of the API with --api, or print the request with --dry-run")
	case !flags.Bool("yes"):
		return fmt.Errorf("the call would be sent to %s, the server of the document: confirm with --yes, give another address with --api, or print the request with --dry-run", c.tools.Origin)
	default:
		origin = c.tools.Origin
	}
	t := NewTerminal(cmd)
	notes := cmd.ErrOrStderr()
	if t.Live {
		notes = t
	}
	return c.send(t, notes, origin)
}

// readCall reads what the command line describes.
func readCall(cmd *cobra.Command, flags caddycmd.Flags) (*toolCall, error) {
	if flags.String("document") == "" && flags.String("config") == "" {
		return nil, errors.New("give the API with --document and an OpenAPI document, or with --config and a Caddy configuration")
	}
	config, declared, _, err := readTools(flags, formatTable, flags.String("document"), cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	headers, err := headerFlag(flags)
	if err != nil {
		return nil, err
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: cmd.Context()})
	defer cancel()
	credentials, err := credential.LoadForToolset(ctx, config.Credentials, zap.NewNop())
	if err != nil {
		return nil, err
	}
	if credentials, err = credentials.With(headers); err != nil {
		return nil, err
	}
	c := &toolCall{tools: credentials.Filled(declared), name: flags.Arg(0), arguments: []byte(flags.Arg(1)), limits: config.Limits()}
	if c.credentials, err = c.supplement(ctx, flags, credentials); err != nil {
		return nil, err
	}
	c.replace, err = c.placeholders(flags)
	return c, err
}

// headerFlag reads the headers of the command line, which are sent like credentials of a toolset.
func headerFlag(flags caddycmd.Flags) (headers []credential.Module, err error) {
	lines, err := flags.GetStringArray("header")
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		header, err := credential.HeaderLine(line)
		if err != nil {
			return nil, fmt.Errorf("--header: %w", err)
		}
		headers = append(headers, header)
	}
	return headers, nil
}

// supplement returns what the credentials add to the request. A dry run prints no values, so that it does
// not need them.
func (c *toolCall) supplement(ctx context.Context, flags caddycmd.Flags, credentials credential.Set) (*security.Supplement, error) {
	if flags.Bool("dry-run") {
		return credentials.Hidden(), nil
	}
	supplement, err := credentials.Current(ctx)
	if err != nil {
		return nil, err
	}
	if supplement == nil {
		return &security.Supplement{}, nil
	}
	return supplement, nil
}

// placeholders returns the function that replaces the placeholders of fixed values.
func (c *toolCall) placeholders(flags caddycmd.Flags) (func(text string) (string, error), error) {
	given, err := flags.GetStringArray("placeholder")
	if err != nil {
		return nil, err
	}
	values := make(map[string]string, len(given))
	for _, pair := range given {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("--placeholder %.64q: write it as http.auth.user.id=grace", pair)
		}
		values[strings.Trim(name, "{}")] = value
	}
	return func(text string) (string, error) {
		global, repl := caddy.NewReplacer(), caddy.NewEmptyReplacer()
		repl.Map(func(key string) (any, bool) {
			if value, given := values[key]; given {
				return value, true
			}
			value, known := global.Get(key)
			if known && (strings.HasPrefix(key, "env.") || strings.HasPrefix(key, "file.")) {
				c.secrets = append(c.secrets, caddy.ToString(value))
			}
			return value, known
		})
		replaced, err := repl.ReplaceOrErr(text, true, true)
		if err != nil {
			return "", fmt.Errorf("%w; give its value with --placeholder name=value", err)
		}
		return replaced, nil
	}, nil
}

// request returns the request that the call becomes, without a host.
func (c *toolCall) request(ctx context.Context, call *tools.Call) (*http.Request, error) {
	if err := call.Resolve(c.replace); err != nil {
		return nil, err
	}
	call.Fill(credential.Values(c.credentials))
	r, err := call.Request(ctx)
	if err != nil {
		return nil, err
	}
	c.credentials.Apply(r)
	return r, nil
}

// print writes the request that the call becomes.
func (c *toolCall) print(out io.Writer) error {
	shown, err := tools.PreviewOf(context.Background(), c.tools, c.name, c.arguments, tools.PreviewOptions{
		Make: c.request, Secrets: func() []string { return c.secrets },
	})
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, shown.Text(c.tools.Origin))
	return err
}

// send sends the request to the API and writes the response as a model reads it. Its status and what was done to it are
// notes.
func (c *toolCall) send(out Terminal, about io.Writer, origin string) error {
	invoker, err := tools.NewHTTPInvoker(origin)
	if err != nil {
		return fmt.Errorf("--api: %w", err)
	}
	invoker.MaxResponse = c.limits.MaxResponse
	invoker.Client.Timeout = max(c.limits.Timeout, 0)
	sender := &callSender{call: c, HTTPInvoker: invoker}
	outcome := tools.Execute(security.ContextWithSupplement(context.Background(), c.credentials), c.tools, c.name, c.arguments, sender)
	defer outcome.Release()
	switch {
	case sender.err != nil:
		return sender.err
	case outcome.Failure != nil:
		return outcome.Failure
	}
	output := &outcome.Tool.Output
	text, notes := app.Shape(context.Background(), outcome.Result.Body, strings.Contains(outcome.Result.MediaType(), "json"),
		output.Select, result.Limit{Memory: result.NewMemory(nil)}, output.MaxTokens)
	if _, err := fmt.Fprintf(about, "%d %s, %s, about %d tokens\n", outcome.Result.Status, http.StatusText(outcome.Result.Status),
		outcome.Duration.Round(time.Millisecond), len(text)/result.BytesPerToken); err != nil {
		return err
	}
	if outcome.Result.Note != "" {
		notes = append(notes, outcome.Result.Note)
	}
	for _, note := range notes {
		if _, err := fmt.Fprintln(about, note); err != nil {
			return err
		}
	}
	return out.writeBody(text)
}

// writeBody writes the body of a response: on a terminal cleaned, and formatted if it is JSON.
func (t Terminal) writeBody(body []byte) error {
	if t.Live {
		var formatted bytes.Buffer
		if json.Indent(&formatted, body, "", "  ") == nil {
			body = []byte(t.paintJSON(string(escaped(formatted.Bytes()))))
		} else {
			body = []byte(printableLines(string(body)))
		}
		body = append([]byte("\n"), body...)
	}
	_, err := fmt.Fprintf(t, "%s\n", body)
	return err
}

// A callSender is a tools.Invoker that sets the fixed values and the credentials of the command line.
type callSender struct {
	*tools.HTTPInvoker
	call *toolCall
	err  error
}

// Invoke implements tools.Invoker.
func (s *callSender) Invoke(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	if err := call.Resolve(s.call.replace); err != nil {
		s.err = err
		return nil, err
	}
	call.Fill(credential.Values(s.call.credentials))
	return s.HTTPInvoker.Invoke(ctx, call)
}
