package commands

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

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
)

const (
	maxLine   = 64 << 10 // bytes of one call
	reconnect = time.Second
)

// follow are the options of `caddy agents tail`.
type follow struct {
	address string
	query   url.Values
	output  Terminal
}

// TailCommand returns the command `caddy agents tail`.
func TailCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail [--tool <name>] [--user <id>] [--agent <name>] [--outcome <outcome>] [--trace <id>] [--wide] [--json]",
		Short: "Follows the tool calls of a running Caddy",
		Long: `
Prints each tool call of a running Caddy when it ends, until Ctrl-C, on one line: time,
outcome, tool, duration, user, and why it failed. Lines are cut to the width of the
terminal. --wide cuts nothing, and adds status, agent, protocol, toolset, trace, node
and arguments. In a pipe, or with --json, each call is a JSON object on one line.
On a terminal, the outcome has a color, unless NO_COLOR is set.

Calls of all nodes that share a store are printed. Values of arguments are printed
only if the global option agents allows them: calls { arguments … }.

If Caddy restarts or loads another configuration, the command connects again.
`,
		Example: "  caddy agents tail --outcome api_error --agent clerk",
		Args:    cobra.NoArgs,
	}
	adminFlags(cmd)
	filterFlags(cmd)
	cmd.RunE = RunE(func(flags caddycmd.Flags) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		f := &follow{address: flags.String("address"), query: filters(flags), output: NewTerminal(cmd)}
		f.output.Wide = flags.Bool("wide")
		return f.run(ctx)
	})
	return cmd
}

// filterFlags adds a flag for each field that calls are filtered by, and --wide.
func filterFlags(cmd *cobra.Command) {
	for _, field := range calllog.Fields {
		equal := "begins with this"
		if field == "id" || field == "outcome" || field == "protocol" {
			equal = "is this"
		}
		cmd.Flags().String(field, "", "Only calls whose "+field+" "+equal)
	}
	cmd.Flags().Bool("wide", false, "Print all fields, and do not cut lines")
}

// filters returns the values of the flags of filterFlags, as parameters of the admin endpoint.
func filters(flags caddycmd.Flags) url.Values {
	query := make(url.Values)
	for _, field := range calllog.Fields {
		if value := flags.String(field); value != "" {
			query.Set(field, value)
		}
	}
	return query
}

// run prints calls until ctx ends. The first request must succeed; later ones are repeated.
func (f *follow) run(ctx context.Context) error {
	for connected := false; ; connected = true {
		err := f.connect(ctx)
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
func (f *follow) connect(ctx context.Context) error {
	response, err := adminRequest(ctx, f.address, http.MethodGet, callsPath+"?"+f.query.Encode(), nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	defer context.AfterFunc(ctx, func() { _ = response.Body.Close() })()
	lines := bufio.NewScanner(response.Body)
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
	text := string(escaped(line)) + "\n"
	if !f.output.JSON {
		text = f.output.callLine(&call, onlyTime, len(onlyTime))
	}
	if _, err := io.WriteString(f.output, text); err != nil {
		return errors.Join(errOutput, err)
	}
	return nil
}
