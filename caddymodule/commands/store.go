package commands

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/adminapi"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/embedded/format2"
)

// The embedded store on Caddy's admin endpoint:
//
//	GET /agents/store/backup  a backup
//	GET /agents/store/report  checks the store, and returns an embedded.Report
func init() {
	adminapi.Register("agents_store", adminapi.Stream(http.MethodGet, backupPath, serveBackup), adminapi.Get(reportPath, func(r *http.Request) (any, error) {
		s, err := runningStore(r)
		if err != nil {
			return nil, err
		}
		return s.Report(r.Context())
	}))
}

// Paths of the admin endpoint.
const (
	backupPath = "/agents/store/backup"
	reportPath = "/agents/store/report"
)

// runningStore returns the embedded store of the running configuration.
func runningStore(r *http.Request) (*embedded.Store, error) {
	agents, err := adminapi.Running[*app.App]()
	if err != nil {
		return nil, err
	}
	opened, err := agents.OpenStore(r.Context())
	s, ok := opened.(*embedded.Store)
	if err == nil && !ok {
		err = errors.New("this is for store bolt: the tools of the server back up, check and measure a store that nodes share")
	}
	return s, err
}

func serveBackup(w http.ResponseWriter, r *http.Request) error {
	s, err := runningStore(r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/gzip")
	return s.Backup(r.Context(), w) // if it ends early, the client notices that the end of the file is missing
}

// StoreCommand returns the command `caddy agents store`.
func StoreCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Backs up, restores, checks and converts the embedded store"}
	backup := &cobra.Command{
		Use:   "backup FILE [--address <admin>]",
		Short: "Writes a backup of the store of a running Caddy",
		Long: `
Writes all records to a file with mode 0600, while Caddy goes on. The file is a store
file compressed by gzip. It is checked before it replaces an existing file.
`,
		Example: "  caddy agents store backup fairway.db.gz",
		Args:    cobra.ExactArgs(1),
	}
	backup.RunE = RunE(func(flags caddycmd.Flags) error { return writeBackup(backup, flags.Arg(0)) })
	check := &cobra.Command{
		Use:     "check [FILE] [--address <admin>]",
		Aliases: []string{"stats"},
		Short:   "Checks a store, and prints what it has",
		Long: `
Checks the structure of the store of a running Caddy, or of a store file that no process
uses, and the checksum of each record and of each log entry. Prints the records and bytes of
each kind of key, and of the owners with the most bytes, the limits, and the size of the
file. stats is the same command.
`,
		Args: cobra.MaximumNArgs(1),
	}
	check.RunE = RunE(func(flags caddycmd.Flags) (err error) {
		r := new(embedded.Report)
		if name := flags.Arg(0); name != "" {
			r, err = embedded.Check(name)
		} else {
			err = Admin(check, reportPath, nil, nil, r)
		}
		if err == nil {
			printReport(check.OutOrStdout(), r)
		}
		return err
	})
	restore := &cobra.Command{
		Use:   "restore FILE [--store <file>] [--replace]",
		Short: "Makes the store of a stopped Caddy from a backup",
		Long: `
Checks the backup and makes the store file. Caddy must not run. If there are records
already, this fails, or renames the old files with --replace. If FILE is -, the backup
is read from standard input.
`,
		Example: "  caddy agents store restore fairway.db.gz --replace",
		Args:    cobra.ExactArgs(1),
	}
	restore.Flags().String("store", "", "The file of store bolt (default: fairway/store.db in Caddy's data directory)")
	restore.Flags().Bool("replace", false, "Rename the files of an existing store")
	restore.RunE = RunE(func(flags caddycmd.Flags) error {
		path := cmp.Or(flags.String("store"), defaultStore())
		return restoreStore(restore, flags.Arg(0), path, flags.Bool("replace"))
	})
	convert := &cobra.Command{
		Use:   "convert [FILE]",
		Short: "Converts the store of an earlier version of Fairway",
		Long: `
Reads a store of format 2, a file and its write-ahead log, and makes a store file of this
version. Caddy must not run. The old files are renamed. FILE is that of store bolt (default:
fairway/store.db in Caddy's data directory).
`,
		Args: cobra.MaximumNArgs(1),
	}
	convert.RunE = RunE(func(flags caddycmd.Flags) error {
		path := cmp.Or(flags.Arg(0), defaultStore())
		r, old, err := embedded.Convert(path, format2.Read)
		if err != nil {
			return err
		}
		fmt.Fprintf(convert.OutOrStdout(), "%s has %d records\nthe old store is %s\n", path, r.Records, old)
		return nil
	})
	addressFlag(backup)
	addressFlag(check)
	cmd.AddCommand(backup, check, convert, restore)
	RequireSubcommand(cmd)
	return cmd
}

// defaultStore returns the path of the store that no configuration names.
func defaultStore() string { return filepath.Join(caddy.AppDataDir(), "fairway", "store.db") }

// writeBackup writes a backup to a new file beside name, checks its checksum, and renames it.
func writeBackup(cmd *cobra.Command, name string) error {
	response, err := adminRequest(cmd.Context(), cmd.Flag("address").Value.String(), http.MethodGet, backupPath, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) //nolint:errcheck // it has been renamed, unless there was an error
	packed, err := gzip.NewReader(io.TeeReader(response.Body, file))
	if err == nil {
		_, err = io.Copy(io.Discard, packed) //nolint:gosec // Caddy is the operator's own
	}
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("receiving the backup: %w", err)
	}
	return os.Rename(file.Name(), name)
}

func restoreStore(cmd *cobra.Command, name, path string, replace bool) error {
	backup := cmd.InOrStdin()
	if name != standardInput {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		backup = file
	}
	r, old, err := embedded.Restore(backup, path, replace, format2.Read)
	if errors.Is(err, embedded.ErrNotEmpty) {
		return fmt.Errorf("%w: add --replace to rename its files", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s has %d records\n", path, r.Records)
	if old != "" {
		fmt.Fprintf(cmd.OutOrStdout(), "the store that was there is %s\n", old)
	}
	return nil
}

// printReport prints what a store has.
func printReport(w io.Writer, r *embedded.Report) {
	size := func(n int64) string { return humanize.IBytes(uint64(n)) }
	line := func(name string, s embedded.Size) {
		fmt.Fprintf(w, "%-28s %8d records %10s\n", name, s.Records, size(s.Bytes))
	}
	fmt.Fprintf(w, "The store is intact: file %s, %d log entries.\n", size(r.File), r.Entries)
	if r.Records > r.Expired {
		fmt.Fprintf(w, "%d records have expired. The next expires at %s.\n", r.Expired, r.Oldest.Format(time.RFC3339))
	}
	line("all", embedded.Size{Records: r.Records, Bytes: r.Bytes})
	if r.MaxRecords > 0 {
		line("limit", embedded.Size{Records: r.MaxRecords, Bytes: r.MaxBytes})
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		line("kind "+kind, r.Kinds[kind])
	}
	for _, owner := range r.Owners {
		line(cmp.Or(string(owner.Owner), "gateway"), owner.Size)
	}
}
