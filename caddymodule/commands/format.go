package commands

import (
	"context"
	"errors"
	"fmt"
	"io"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/source"
)

// Output formats of the command `caddy tools`.
const (
	formatTable = "table"
	formatOCP   = "ocp"
	formatMCP   = "mcp"
)

// toolsFormat returns the format that the flags select. --json is short for --format ocp.
func toolsFormat(flags caddycmd.Flags) (string, error) {
	format := flags.String("format")
	switch {
	case flags.Bool("json") && format != "" && format != formatOCP:
		return "", fmt.Errorf("--json cannot be combined with --format %s: --json is short for --format %s", format, formatOCP)
	case flags.Bool("json"):
		return formatOCP, nil
	case format == "":
		return formatTable, nil
	case format == formatTable, format == formatOCP, format == formatMCP:
		return format, nil
	}
	return "", fmt.Errorf("--format %.64q is unknown%s", format, directive.DidYouMean(format, []string{formatTable, formatOCP, formatMCP}))
}

// writeTools writes the tools in the given format.
func writeTools(out Terminal, format string, toolset *tools.Toolset) error {
	switch format {
	case formatOCP:
		return writeToolsJSON(out, toolset)
	case formatMCP:
		return mcpadapter.New(mcpadapter.Options{}).WriteTools(out, toolset)
	}
	_, err := io.WriteString(out, toolsTable(out, toolset))
	return err
}

// checkTools returns an error if there are no tools. With lint, it also returns an error if an operation
// did not become a tool.
func checkTools(toolset *tools.Toolset, lint bool, lost int) error {
	switch {
	case len(toolset.Tools()) == 0 && toolset.Report.Operations > 0 && toolset.Report.Excluded == toolset.Report.Operations:
		return errors.New("the document has no tools: --include and --exclude select no operation")
	case len(toolset.Tools()) == 0 && len(toolset.Report.Events) > 0: // an API that only sends webhooks
		return nil
	case len(toolset.Tools()) == 0:
		return errors.New("the document has no tools: no operation could be converted")
	case !lint || lost == 0:
		return nil
	case lost == 1:
		return errors.New("1 operation could not be converted to a tool")
	}
	return fmt.Errorf("%d operations could not be converted to tools", lost)
}

// standardInput is the argument that selects standard input instead of a document.
const standardInput = "-"

// readerSource is a source.Source that reads the document once, from standard input.
type readerSource struct {
	reader  io.Reader
	maxSize int64 // bytes
}

// Location implements source.Source.
func (*readerSource) Location() string { return "standard input" }

// Fetch implements source.Source.
func (s *readerSource) Fetch(_ context.Context, previous *source.Snapshot) (*source.Snapshot, bool, error) {
	if previous != nil {
		return previous, false, nil
	}
	var content buffer.Buffer
	switch err := content.ReadAll(s.reader, s.maxSize); {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, false, fmt.Errorf("reading standard input: %w: it has more than %d bytes", source.ErrTooLarge, s.maxSize)
	case err != nil:
		return nil, false, fmt.Errorf("reading standard input: %w", err)
	}
	return &source.Snapshot{Data: content.B, Location: "."}, true, nil
}
