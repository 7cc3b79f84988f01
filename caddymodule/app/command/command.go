package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/app/calllog"
)

const (
	maxLine   = 64 << 10 // bytes of one call
	reconnect = time.Second
)

// follow are the options of `caddy agents tail`.
type follow struct {
	address, tool, user string
	printer             printer
	output              io.Writer
}

// TailCommand returns the command `caddy agents tail`.
func TailCommand() *cobra.Command {
	f := new(follow)
	cmd := &cobra.Command{
		Use:   "tail [--tool <name>] [--user <id>] [--address <admin>] [--json]",
		Short: "Follows the tool calls of a running Caddy",
		Long: `
Prints each tool call of a running Caddy when it ends, until Ctrl-C: time, outcome,
tool, duration, status of the API, user, protocol and toolset. On a terminal, the
outcome has a color, unless NO_COLOR is set. Otherwise, or with --json, each call is
a JSON object on one line.

Calls of all nodes that share a store are printed. Values of arguments are printed
only if log_inputs of a console of the site allows them.

If Caddy restarts or loads another configuration, the command connects again.
`,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			asJSON, err := cmd.Flags().GetBool("json")
			if err != nil {
				return err
			}
			cmd.SilenceUsage = true
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			f.output = os.Stdout
			f.printer = printer{json: asJSON || !isTerminal(os.Stdout), color: os.Getenv("NO_COLOR") == ""}
			return f.run(ctx)
		},
	}
	cmd.Flags().StringVar(&f.tool, "tool", "", "Only calls of this tool")
	cmd.Flags().StringVar(&f.user, "user", "", "Only calls of this user")
	cmd.Flags().StringVar(&f.address, "address", "", "Address of the admin endpoint (default: Caddy's)")
	cmd.Flags().Bool("json", false, "JSON lines, also on a terminal")
	return cmd
}

// isTerminal reports whether a file is a terminal.
func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// run prints calls until ctx ends. The first request must succeed; later ones are repeated.
func (f *follow) run(ctx context.Context) error {
	address, err := caddycmd.DetermineAdminAPIAddress(f.address, nil, "", "")
	if err != nil {
		return err
	}
	for connected := false; ; connected = true {
		err := f.connect(ctx, address)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the user has interrupted the command
		case err != nil && (!connected || errors.Is(err, errOutput)):
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnect):
		}
	}
}

// errOutput means that the output cannot be written.
var errOutput = errors.New("writing the output failed")

// connect prints the calls of one response.
func (f *follow) connect(ctx context.Context, address string) error {
	query := make(url.Values)
	if f.tool != "" {
		query.Set("tool", f.tool)
	}
	if f.user != "" {
		query.Set("user", f.user)
	}
	type answer struct {
		response *http.Response
		err      error
	}
	answered := make(chan answer, 1)
	go func() {
		response, err := caddycmd.AdminAPIRequest(address, http.MethodGet, "/agents/calls?"+query.Encode(), nil, nil) //nolint:bodyclose // the receiver closes it
		answered <- answer{response, err}
	}()
	var a answer
	select {
	case <-ctx.Done():
		return ctx.Err()
	case a = <-answered:
	}
	if a.err != nil {
		return fmt.Errorf("following the calls at %s failed: %w; is Caddy running, and is this its admin endpoint?", address, a.err)
	}
	defer a.response.Body.Close()
	defer context.AfterFunc(ctx, func() { _ = a.response.Body.Close() })()
	lines := bufio.NewScanner(a.response.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := f.print(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func (f *follow) print(line []byte) error {
	var call calllog.Call
	if err := json.Unmarshal(line, &call); err != nil {
		return fmt.Errorf("the admin endpoint sent something else than a tool call: %w", err)
	}
	if _, err := f.output.Write(f.printer.line(line, &call)); err != nil {
		return errors.Join(errOutput, err)
	}
	return nil
}
