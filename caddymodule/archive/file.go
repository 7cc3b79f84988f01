package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

func init() {
	caddy.RegisterModule(new(File))
}

// dateFormat is what rotation inserts into the name of a file.
const dateFormat = "2006-01-02"

// File appends lines to a file, and syncs it after each batch. With the first line of a day (UTC), the lines of the earlier
// day move to a file with their date in its name: audit.jsonl becomes audit-2026-11-23.jsonl. Files have mode 0600.
type File struct {
	// The path of the file. Placeholders such as {env.NAME} are replaced. Required.
	Path string `json:"path,omitempty"`

	// How long files with a date are kept. Default: forever.
	Keep caddy.Duration `json:"keep,omitempty"`

	now  func() time.Time
	path string

	mu   sync.Mutex
	file *os.File // nil until it is opened
	day  string   // of the lines in the file
}

// CaddyModule returns the Caddy module information.
func (*File) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: sinksNamespace + ".file", New: func() caddy.Module { return new(File) }}
}

// Provision checks the options. It does not open the file.
func (f *File) Provision(caddy.Context) (err error) {
	f.now = time.Now
	if f.path, err = filepath.Abs(caddy.NewReplacer().ReplaceAll(f.Path, "")); err != nil {
		return err
	}
	switch {
	case f.Path == "":
		return errors.New("sink file has no path, as in: sink file /var/log/fairway/audit.jsonl")
	case f.Keep < 0:
		return fmt.Errorf("sink file: keep %s: must not be negative", time.Duration(f.Keep))
	}
	return nil
}

// Cleanup closes the file.
func (f *File) Cleanup() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.close()
}

func (f *File) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

// Target implements Sink.
func (f *File) Target() string { return "file " + f.path }

// Write implements Sink.
func (f *File) Write(_ context.Context, _ string, lines []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.write(lines)
	if err != nil {
		_ = f.close() // the next attempt opens it again, and removes a part of a line
	}
	return err
}

func (f *File) write(lines []byte) error {
	today := f.now().UTC().Format(dateFormat)
	if err := f.openFor(today); err != nil {
		return err
	}
	if _, err := f.file.Write(lines); err != nil {
		return err
	}
	return f.file.Sync()
}

// openFor opens the file for lines of a day, and rotates it if it has those of an earlier one.
func (f *File) openFor(today string) error {
	if f.file == nil {
		if err := f.open(); err != nil {
			return err
		}
	}
	if f.day == "" || f.day == today {
		f.day = today
		return nil
	}
	if err := f.close(); err != nil {
		return err
	}
	if err := os.Rename(f.path, f.dated(f.day)); err != nil {
		return err
	}
	f.removeOld()
	if err := f.open(); err != nil {
		return err
	}
	f.day = today
	return nil
}

// open opens the file, and removes the part of a line that a crash has left at its end.
func (f *File) open() error {
	const dirMode, fileMode = 0o700, 0o600
	if err := os.MkdirAll(filepath.Dir(f.path), dirMode); err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, fileMode)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		err = truncateLine(file, info.Size())
	}
	if err != nil {
		_ = file.Close()
		return err
	}
	f.file, f.day = file, ""
	if info.Size() > 0 {
		f.day = info.ModTime().UTC().Format(dateFormat)
	}
	return nil
}

// truncateLine removes what follows the last line break of a file.
func truncateLine(file *os.File, size int64) error {
	const tail = maxLine
	from := max(0, size-tail)
	end := make([]byte, size-from)
	if _, err := file.ReadAt(end, from); err != nil {
		return err
	}
	if whole := from + int64(bytes.LastIndexByte(end, '\n')) + 1; whole < size {
		return file.Truncate(whole)
	}
	return nil
}

// dated returns the name of the file with the lines of a day. It never exists.
func (f *File) dated(day string) string {
	extension := filepath.Ext(f.path)
	base := strings.TrimSuffix(f.path, extension) + "-" + day
	name := base + extension
	for n := 1; ; n++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name
		}
		name = fmt.Sprintf("%s.%d%s", base, n, extension)
	}
}

// removeOld removes files whose date is older than Keep. What cannot be removed is tried again a day later.
func (f *File) removeOld() {
	if f.Keep == 0 {
		return
	}
	extension := filepath.Ext(f.path)
	prefix := strings.TrimSuffix(filepath.Base(f.path), extension) + "-"
	entries, _ := os.ReadDir(filepath.Dir(f.path))
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), prefix)
		if !ok || !strings.HasSuffix(rest, extension) || len(rest) < len(dateFormat) {
			continue
		}
		day, err := time.Parse(dateFormat, rest[:len(dateFormat)])
		const wholeDay = 24 * time.Hour
		if err == nil && f.now().Sub(day.Add(wholeDay)) > time.Duration(f.Keep) {
			_ = os.Remove(filepath.Join(filepath.Dir(f.path), entry.Name()))
		}
	}
}

// UnmarshalCaddyfile parses the options of the sink. Syntax:
//
//	file <path> {
//		keep <duration>
//	}
func (f *File) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the sink
	if !d.Args(&f.Path) {
		return d.Err("sink file needs a path, as in: sink file /var/log/fairway/audit.jsonl")
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	return b.Read("sink file", directive.Options{"keep": directive.To(b.Period, &f.Keep)})
}

// Interface guards
var (
	_ Sink                  = (*File)(nil)
	_ caddy.Provisioner     = (*File)(nil)
	_ caddy.CleanerUpper    = (*File)(nil)
	_ caddyfile.Unmarshaler = (*File)(nil)
)
