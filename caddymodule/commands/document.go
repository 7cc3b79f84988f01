package commands

import (
	"context"
	"errors"
	"fmt"
	"io"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/tools/source"
)

// toolsArguments checks that the command has one document: its argument, or the flag --document.
func toolsArguments(cmd *cobra.Command, arguments []string) error {
	printed, err := cmd.Flags().GetString("document")
	switch {
	case err != nil:
		return err
	case cmd.Flags().Changed("config"):
		return nil // checkConfigFlags says what does not go with it
	case printed == "":
		return cobra.ExactArgs(1)(cmd, arguments)
	case len(arguments) > 0:
		return fmt.Errorf("--document %s and the argument %s are two documents: give one of them", printed, arguments[0])
	}
	return nil
}

// selectedSource completes the options of the toolset with the document at the given address and its
// overlays, and returns the source of the document.
func selectedSource(config *app.ToolsetConfig, flags caddycmd.Flags, address string, stdin io.Reader) (key app.DocumentKey, src source.Source, err error) {
	config.OpenAPI = address
	if address == standardInput {
		config.OpenAPI = "./" + standardInput
	}
	if config.Overlays, err = flags.GetStringArray("overlay"); err != nil {
		return key, nil, err
	}
	if key, err = config.Key(""); err != nil {
		return key, nil, err
	}
	if address == standardInput {
		return key, &readerSource{reader: stdin, maxSize: source.DefaultMaxDocument}, nil
	}
	if key.Kind == app.SourceSite {
		// The command has no site, so an address that looks like a path on the site is a
		// missing file.
		key.Kind = app.SourceFile
	}
	src, err = key.Source(zap.NewNop())
	return key, src, err
}

// printDocument prints the document after its overlays, in the form in which it is written.
func printDocument(cmd *cobra.Command, flags caddycmd.Flags) error {
	key, src, err := selectedSource(new(app.ToolsetConfig), flags, flags.String("document"), cmd.InOrStdin())
	if err != nil {
		return err
	}
	if len(key.Overlays) == 0 {
		return errors.New("--document prints a document after its overlays: add --overlay FILE, or give the document as an argument to list its tools")
	}
	ctx, cancel := context.WithTimeout(context.Background(), MaxWait)
	defer cancel()
	snapshot, _, err := src.Fetch(ctx, nil)
	if err != nil {
		return err
	}
	result, err := key.ApplyOverlays(snapshot.Data)
	if err != nil {
		return err
	}
	for _, w := range result.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
	}
	text, err := result.Text()
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(text)
	return err
}
