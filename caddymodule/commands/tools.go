package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/events/declared"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/loader"
	"github.com/fairwayhq/fairway/tools/lock"
	"github.com/fairwayhq/fairway/tools/openapi"
	"github.com/fairwayhq/fairway/tools/overlay"
	"github.com/fairwayhq/fairway/tools/schema"
	"github.com/fairwayhq/fairway/tools/search"
	"github.com/fairwayhq/fairway/tools/source"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "tools",
		Usage: "DOCUMENT | --config <path> [--toolset <name>] [--lock <file>] [--overlay <file>] [--format table|ocp|mcp] [--include <by=value>] [--exclude <by=value>] [--readonly] [--ignore-extensions] [--search <request>] [--schemas <mode>] [--refs <directory>] [--base-path <path>] [--lint]",
		Short: "Prints the tools of an OpenAPI document",
		Long: `
Prints the tools that Fairway creates from an OpenAPI document (3.0, 3.1 or
Swagger 2.0; JSON or YAML). The document is a file, an http(s) URL, or - for
standard input.

For each tool it prints the name, the method, the path, the estimated number of
tokens, and the arguments (required ones with a star). The total and the warnings
about the document follow. If shapes or shortened descriptions change the size of a
tool, its tokens before the change stand before its tokens: 900→310. What each shape
changed is printed below the table.

--config FILE prints the tools of a toolset in a Caddy configuration, with its
shapes and all its options. --toolset chooses one if there are several.

caddy tools call NAME '{…}' calls a tool, or prints the request that the call
becomes; see caddy tools call --help.

--include and --exclude select operations as in the Caddyfile. They may be given
more than once: --include tag=issues,pulls --exclude method=DELETE. The value of
operation is the NAME that this command prints, the operationId, or the method and
path: --exclude 'operation=DELETE /bookings/{booking_id}'. A value that matches no
operation is an error. --readonly leaves out the operations that change something.

--overlay FILE applies an OpenAPI Overlay to the document first. It may be given
more than once; the overlays are applied in order. To print the document after its
overlays in place of its tools, give it as --document:
caddy tools --overlay fixes.overlay.yaml --document openapi.yaml

--lock FILE leaves out the tools that the lock file does not approve. The
subcommands lock and diff write the lock file and compare it with the document.

--format selects the output: table (the default), ocp (a JSON array of OCP tool
schemas, with response schemas) or mcp (the tools as in a tools/list response).
With ocp and mcp, everything else is printed to stderr. --json is short for
--format ocp.

--search REQUEST prints only the tools that fit a request as a user writes it, best
first: --search "close the issue". At most 10 tools are printed.

--lint also prints the findings of a strict validator, and the operations whose
body has a guessed media type. Tools do not depend on these findings. It calls each
tool with the examples that the document itself has for parameters and JSON bodies,
without sending anything, and prints those that cannot be sent as they are, with the
reason. The last part of the output is an overlay that lets them be sent, if the
schemas are to be corrected and not the examples.

The command fails if the document has no tools. With --lint it also fails if an
operation could not be converted to a tool.
`,
		CobraFunc: func(cmd *cobra.Command) {
			f := cmd.Flags()
			toolsetFlags(cmd)
			cmd.AddCommand(callCommand(), lockToolsCommand(), diffToolsCommand())
			f.String("format", "", "Output format: table, ocp or mcp (default: table)")
			f.Bool("json", false, "Short for --format ocp")
			f.String("document", "", "Print this document after its overlays, in place of its tools")
			f.String("search", "", "Print only the tools that fit this request, best first")
			f.Bool("lint", false, "Also print findings of a strict validator and examples that cannot be sent, and fail if an operation is lost")
			cmd.Example = "  caddy tools openapi.yaml --include tag=bookings"
			cmd.Args = toolsArguments
			cmd.RunE = RunE(func(flags caddycmd.Flags) error { return printTools(cmd, flags) })
		},
	})
}

// MaxWait limits how long a command waits for the document.
const MaxWait = time.Minute

// printTools runs the command `caddy tools`.
func printTools(cmd *cobra.Command, flags caddycmd.Flags) error {
	if flags.String("document") != "" {
		return printDocument(cmd, flags)
	}
	format, err := toolsFormat(flags)
	if err != nil {
		return err
	}
	_, toolset, lint, err := readTools(flags, format, flags.Arg(0), cmd.InOrStdin())
	if err != nil {
		return err
	}
	if request := flags.String("search"); request != "" {
		return writeFound(NewTerminal(cmd), format, toolset, request)
	}
	return writeOutput(cmd, format, toolset, lint)
}

// writeOutput writes the tools to standard output and everything else to standard error, so that
// the output can be piped.
func writeOutput(cmd *cobra.Command, format string, toolset *tools.Toolset, lint *documentLint) error {
	out, messages := NewTerminal(cmd), cmd.ErrOrStderr()
	if format == formatTable {
		messages = out
	}
	if err := writeTools(out, format, toolset); err != nil {
		return err
	}
	lost := writeWarnings(messages, toolset)
	if lint != nil {
		writeFindings(messages, lint.findings, toolset.Report.Warnings)
		writeGuesses(messages, toolset.Report.Guesses)
		if err := lint.writeExamples(messages); err != nil {
			return err
		}
	}
	return checkTools(toolset, lint != nil, lost)
}

// maxFound is the number of tools that --search prints.
const maxFound = 10

// writeFound writes the tools that fit a request, best first. The command fails if there are none.
func writeFound(out Terminal, format string, toolset *tools.Toolset, request string) error {
	found := toolset.Find(request, maxFound, func(*tools.Tool) bool { return true })
	if len(found) == 0 {
		return fmt.Errorf("--search %q finds no tool of the document", request)
	}
	shown := tools.NewToolset(toolset.Name, found)
	shown.Report.Operations, shown.Report.Excluded = toolset.Report.Operations, toolset.Report.Excluded
	return writeTools(out, format, shown)
}

// readTools builds the toolset that the command line describes. Lint is nil unless --lint is given.
func readTools(flags caddycmd.Flags, format, document string, stdin io.Reader) (config *app.ToolsetConfig, toolset *tools.Toolset, lint *documentLint, err error) {
	if err := checkConfigFlags(flags, document); err != nil {
		return nil, nil, nil, err
	}
	config, key, src, err := selectedToolset(flags, document, stdin)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), MaxWait)
	defer cancel()
	var warnings []overlay.Warning
	if flags.Lookup("lint") != nil && flags.Bool("lint") {
		lint = new(documentLint)
	}
	buildSet := func(ctx context.Context, data []byte, location string, _ *tools.Toolset) (*tools.Toolset, []string, error) {
		options := key.OptionsOf(location)
		if lint != nil {
			*lint = documentLint{findings: lintDocument(ctx, data), data: data, options: options}
		}
		options.ResponseSchemas = format == formatOCP || key.Lock != ""
		toolset, err := tools.Build(data, options)
		if err == nil {
			toolset.Report.Warnings = append(app.OverlayWarnings(warnings), toolset.Report.Warnings...)
			toolset.Finder = search.NewFinder(toolset.Tools())
			err = reportEvents(&toolset.Report, data, &options)
		}
		if err == nil && lint != nil {
			toolset.Report.Warnings = append(toolset.Report.Warnings, mcpadapter.New(mcpadapter.Options{}).Warnings(toolset)...)
		}
		return toolset, nil, err
	}
	defer app.CloseSource(src)
	documents := loader.New(loader.Options{Source: src, Prepare: key.Preparation(&warnings), Build: buildSet})
	if err := documents.Load(ctx); err != nil {
		return nil, nil, nil, err
	}
	toolset = documents.Toolset()
	if key.Withholds() {
		var changes []lock.Change
		if toolset, changes, err = key.Withhold(toolset); err != nil {
			return nil, nil, nil, err
		}
		toolset.Report.Warnings = append(toolset.Report.Warnings, lockWarnings(changes)...)
		if format != formatOCP && key.Lock != "" {
			toolset.DropResponseSchemas()
		}
	}
	return config, toolset, lint, nil
}

// toolsetFlags registers the flags that select a document and the options of its toolset.
func toolsetFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	addConfigFlags(cmd)
	f.StringArray("overlay", nil, "Apply this OpenAPI Overlay to the document first; repeatable")
	f.StringArray("include", nil, "Use only these operations: tag=…, operation=…, path=… or method=…, values separated by commas")
	f.StringArray("exclude", nil, "Do not use these operations, in the same form")
	f.Bool("readonly", false, "Use only operations that read, as the option readonly of a toolset does")
	f.Bool("ignore-extensions", false, "Ignore the x-fairway of the document itself")
	f.String("schemas", "", "How to list shared schemas: auto, inline or defs (default: auto)")
	f.String("refs", "", "Directory that $refs to other files may refer into (default: none)")
	f.String("base-path", "", "Path prefix of the API (default: the path of the first server)")
	f.String("lock", "", "Lock file with the approved tools (default: none, or that of the configuration)")
}

// selectedToolset returns the options of the toolset and the source of its document.
func selectedToolset(flags caddycmd.Flags, document string, stdin io.Reader) (config *app.ToolsetConfig, key app.DocumentKey, src source.Source, err error) {
	pinned := ""
	if flags.Lookup("lock") != nil {
		pinned = flags.String("lock")
	}
	if flags.String("config") != "" {
		var name string
		if name, config, err = configuredToolset(flags); err != nil {
			return nil, key, nil, err
		}
		if pinned != "" {
			config.Lock = pinned
		}
		if key, err = config.Key(name); err != nil {
			return nil, key, nil, err
		}
		if key.Kind == app.SourceSite {
			return nil, key, nil, fmt.Errorf("the document of toolset %s is a path on the site, %s, which a command cannot fetch: save it to a file and give that", name, key.Address)
		}
		src, err = key.Source(zap.NewNop())
		return config, key, src, err
	}
	config = &app.ToolsetConfig{Lock: pinned}
	config.Refs, config.BasePath = flags.String("refs"), flags.String("base-path")
	if flags.Lookup("schemas") != nil { // a command that lists tools
		config.Schemas, config.ReadOnly = schema.Mode(flags.String("schemas")), flags.Bool("readonly")
		config.IgnoreExtensions = flags.Bool("ignore-extensions")
		if config.Include, err = SelectorFlag(flags, "include"); err != nil {
			return nil, key, nil, err
		}
		if config.Exclude, err = SelectorFlag(flags, "exclude"); err != nil {
			return nil, key, nil, err
		}
	}
	key, src, err = selectedSource(config, flags, document, stdin)
	return config, key, src, err
}

// SelectorFlag reads selectors such as tag=bookings or tag=issues,pulls.
func SelectorFlag(flags caddycmd.Flags, name string) ([]build.Selector, error) {
	texts, err := flags.GetStringArray(name)
	if err != nil {
		return nil, err
	}
	selectors := make([]build.Selector, 0, len(texts))
	for _, text := range texts {
		at := strings.IndexAny(text, "= ")
		if at < 0 {
			return nil, fmt.Errorf("--%s %s has no equals sign; write it as --%s tag=bookings", name, text, name)
		}
		for _, value := range splitValues(text[at+1:]) {
			s := build.Selector{By: text[:at], Value: value}
			if err := s.Check(); err != nil {
				return nil, fmt.Errorf("--%s %s: %w", name, text, err)
			}
			selectors = append(selectors, s)
		}
	}
	return selectors, nil
}

// splitValues splits values at commas. A comma before a space or a brace does not separate
// values: it is part of a path such as /near/{latitude},{longitude}.
func splitValues(text string) []string {
	var values []string
	start := 0
	for i := range len(text) {
		if text[i] != ',' || i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '{') {
			continue
		}
		values = append(values, text[start:i])
		start = i + 1
	}
	return append(values, text[start:])
}

// toolsTable returns one line for each tool, the totals, and what shapes changed. On a terminal, the lines of tools are cut to its width.
func toolsTable(t Terminal, toolset *tools.Toolset) string {
	var rows, text strings.Builder
	table := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tMETHOD\tPATH\tTOKENS\tARGUMENTS")
	sum, hidden := 0, 0
	for _, tool := range toolset.Tools() {
		tokens, before := strconv.Itoa(app.ToolTokens(tool)), app.ToolTokensBefore(tool)
		if before != app.ToolTokens(tool) {
			tokens = fmt.Sprintf("%d→%s", before, tokens)
		}
		if sum += before; library.IsHidden(tool) {
			hidden++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", tool.Name, tool.Plan.Method, tool.Plan.Path, tokens, argumentNames(tool))
	}
	_ = table.Flush() // writes to memory
	for row := range strings.Lines(rows.String()) {
		if t.Live {
			row = t.Line(cell{Text: strings.TrimSuffix(row, "\n")})
		}
		text.WriteString(row)
	}
	after, note := app.EstimateTokens(toolset), ""
	if sum != after {
		note = fmt.Sprintf(" (%d before shapes and shortened descriptions)", sum)
	}
	fmt.Fprintf(&text, "\n%d tools of %d operations (%d excluded), about %d tokens%s\n", len(toolset.Tools()), toolset.Report.Operations, toolset.Report.Excluded, after, note)
	if hidden > 0 {
		fmt.Fprintf(&text, "%d of these are no tools for MCP clients (x-mcp: {tool: false})\n", hidden)
	}
	if after > app.SearchThreshold {
		fmt.Fprintf(&text, "more than %d tokens: mcp endpoints list tools that search for these (search auto); search off lists all\n", app.SearchThreshold)
	}
	title := "\nshapes:\n"
	for _, tool := range toolset.Tools() {
		if len(tool.Unshaped.Changes) > 0 {
			fmt.Fprintf(&text, "%s  %s\n    %s\n", title, tool.Name, strings.Join(tool.Unshaped.Changes, "\n    "))
			title = ""
		}
	}
	return text.String()
}

// argumentNames returns the names of a tool's arguments for the table.
func argumentNames(tool *tools.Tool) string {
	names := make([]string, 0, len(tool.Definition.Arguments))
	for i := range tool.Definition.Arguments {
		name := tool.Definition.Arguments[i].Name
		if tool.Definition.Arguments[i].Required {
			name += "*"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, " ")
}

// writeToolsJSON writes the tools one at a time, so that it needs memory for the largest tool
// only.
func writeToolsJSON(out io.Writer, toolset *tools.Toolset) error {
	text := []byte("[")
	for i, tool := range toolset.Tools() {
		if i > 0 {
			text = append(text, ',')
		}
		text = tool.AppendOCP(append(text, '\n'))
		if _, err := out.Write(text); err != nil {
			return err
		}
		text = text[:0]
	}
	_, err := out.Write(append(text, "\n]\n"...))
	return err
}

// writeWarnings prints the warnings and returns how many operations did not become a tool.
func writeWarnings(out io.Writer, toolset *tools.Toolset) (lost int) {
	if names := toolset.Report.Events; len(names) > 0 {
		fmt.Fprintf(out, "\nevents, which agent_events receives (%d):\n  %s\n", len(names), strings.Join(names, "\n  "))
	}
	if len(toolset.Report.Warnings) > 0 {
		fmt.Fprintf(out, "\nwarnings (%d):\n", len(toolset.Report.Warnings))
	}
	for _, w := range toolset.Report.Warnings {
		kind, operation := "note", w.Operation
		if w.Lost {
			kind = "lost"
			lost++
		}
		operation = cmp.Or(operation, "the document")
		fmt.Fprintf(out, "  %s  %s: %s\n", kind, operation, w.Reason)
	}
	return lost
}

// reportEvents adds the events of a document to a report, and why others cannot be received.
func reportEvents(report *tools.Report, data []byte, o *tools.BuildOptions) error {
	d, err := openapi.Read(data, openapi.Options{Location: o.Location, Refs: o.Refs, Limits: openapi.Limits{Size: o.MaxDocument}})
	if err != nil {
		return err
	}
	for _, e := range declared.Read(d, []string{"/type"}) {
		if e.Err != nil {
			report.Warnings = append(report.Warnings, tools.Warning{Operation: "event " + e.Key, Reason: "cannot be received: " + e.Err.Error()})
		} else {
			report.Events = append(report.Events, e.Name)
		}
	}
	return nil
}

// writeFindings prints the findings of the validator that no warning already reports.
func writeFindings(out io.Writer, findings []string, warnings []tools.Warning) {
	findings = slices.DeleteFunc(findings, func(finding string) bool {
		return slices.ContainsFunc(warnings, func(w tools.Warning) bool { return w.Reason == finding })
	})
	fmt.Fprintf(out, "\nlint (%d):\n", len(findings))
	for _, finding := range findings {
		fmt.Fprintf(out, "  %s\n", finding)
	}
}

// writeGuesses prints what the document does not specify and Fairway inferred.
func writeGuesses(out io.Writer, guesses []tools.Warning) {
	if len(guesses) == 0 {
		return
	}
	fmt.Fprintf(out, "\nguesses (%d):\n", len(guesses))
	for _, g := range guesses {
		fmt.Fprintf(out, "  %s: %s\n", g.Operation, g.Reason)
	}
}
