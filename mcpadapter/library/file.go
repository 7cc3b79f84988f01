package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/httpheader"
)

const (
	maxListedFiles = 1000        // files of one folder in resources/list; further files can still be read
	maxScanned     = 20_000      // entries of one folder that are scanned for the list
	maxFolderDepth = 16          // levels below a folder that are listed
	scanInterval   = time.Second // how long a list of files is cached
)

// Reasons why a file cannot be read.
var (
	errNotRegular = errors.New("is not a regular file")
	ErrFileSize   = errors.New("is larger than the limit")
)

// A file is the source of a file resource.
type file struct {
	path  string
	limit int64  // maximum size in bytes
	root  string // folder that the path must not leave; "" for none
}

// open opens a regular file for reading. It rejects other files: opening a named pipe would block
// until a writer opens it.
func (f *file) open() (*os.File, fs.FileInfo, error) {
	stat, open := os.Stat, os.Open
	if f.root != "" {
		root, err := os.OpenRoot(f.root)
		if err != nil {
			return nil, nil, err
		}
		defer root.Close()
		stat, open = root.Stat, root.Open
	}
	about, err := stat(f.path)
	if err != nil {
		return nil, nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, nil, errNotRegular
	}
	opened, err := open(f.path)
	return opened, about, err
}

// read returns the whole file.
func (f *file) read() ([]byte, error) {
	opened, about, err := f.open()
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	var content buffer.Buffer
	if about.Size() <= f.limit {
		content.Grow(int(about.Size()) + 1) // one more, so that the end is found without growing
		err = content.ReadAll(opened, f.limit)
	}
	if about.Size() > f.limit || errors.Is(err, buffer.ErrTooLarge) {
		return nil, fmt.Errorf("%w of %d bytes", ErrFileSize, f.limit)
	}
	return content.B, err
}

// ReadInFolder returns a file that must be inside the folder, with at most limit bytes.
func ReadInFolder(folder, name string, limit int64) ([]byte, error) {
	return (&file{path: filepath.FromSlash(name), limit: limit, root: folder}).read()
}

// stamp returns the version of the file: its size and modification time. ok is false if the version
// is unknown.
func (f *file) stamp() (string, bool) {
	opened, about, err := f.open()
	if err != nil {
		return "", errors.Is(err, fs.ErrNotExist)
	}
	_ = opened.Close() // read-only, so closing cannot lose data
	return fmt.Sprintf("%d %d", about.Size(), about.ModTime().UnixNano()), true
}

// Folder is a folder whose files clients may read. Excluded are files and subfolders whose name
// starts with a dot, and symbolic links that lead out of the folder.
type Folder struct {
	// The path of the folder. Placeholders such as {env.DOCS} are replaced. Required.
	Path string `json:"path"`

	// The beginning of the files' URIs. If several prefixes match a URI, the longest applies.
	// Default: file:/// and the folder's name.
	Prefix string `json:"prefix,omitempty"`

	// Scopes that an access token needs to read the files. Other callers are refused, and do not see
	// the files in the list. Default: none; all callers may read them.
	Scopes []string `json:"scopes,omitempty"`
}

// A folder caches the list of its files for scanInterval.
type folder struct {
	path   string
	prefix string // ends with a slash
	limit  int64

	mu      sync.Mutex
	scanned time.Time
	files   []*Entry
}

// newFolder checks the options of a folder and returns it.
func newFolder(f Folder, limit int64) (*folder, error) {
	about, err := os.Stat(f.Path)
	if err != nil {
		return nil, err
	}
	if !about.IsDir() {
		return nil, errors.New("is not a folder")
	}
	prefix := f.Prefix
	if prefix == "" {
		absolute, err := filepath.Abs(f.Path)
		if err != nil {
			return nil, err
		}
		prefix = "file:///" + escapeValue(filepath.Base(absolute))
	}
	if !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	if err := checkURI(prefix); err != nil {
		return nil, err
	}
	return &folder{path: f.Path, prefix: prefix, limit: limit}, nil
}

// template returns the folder as a resource template that needs the scopes.
func (f *folder) template(scopes []string) *Entry {
	template, err := parseTemplate(f.prefix + "{+path}")
	if err != nil {
		panic(err) // cannot happen: newFolder has checked the prefix
	}
	return &Entry{
		template:    template,
		name:        LastPart(f.prefix),
		description: "Files of the folder " + LastPart(f.prefix) + ".",
		size:        -1,
		folder:      f,
		Scopes:      scopes,
	}
}

// file returns the file at a path below the folder. ok is false if clients must not read it.
func (f *folder) file(name string) (*file, bool) {
	if !fs.ValidPath(name) || name == "." || hidden(name) || strings.ContainsAny(name, `\:`) && filepath.Separator == '\\' {
		return nil, false
	}
	return &file{path: filepath.FromSlash(name), limit: f.limit, root: f.path}, true
}

// hidden reports whether a segment of the path starts with a dot.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

// list returns the current files, sorted by name.
func (f *folder) list(now time.Time) []*Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	if age := now.Sub(f.scanned); age >= 0 && age < scanInterval {
		return f.files
	}
	f.scanned, f.files = now, f.scan()
	return f.files
}

// scan walks through the folder. It skips entries that cannot be read.
func (f *folder) scan() (files []*Entry) {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return nil
	}
	defer root.Close()
	seen := 0
	_ = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		seen++
		switch {
		case len(files) == maxListedFiles || seen > maxScanned:
			return fs.SkipAll
		case name == ".":
			return nil
		case err != nil || hidden(path.Base(name)):
			return skip(entry)
		case entry.IsDir():
			if strings.Count(name, "/")+1 >= maxFolderDepth {
				return fs.SkipDir
			}
			return nil
		}
		if about, err := root.Stat(name); err == nil && about.Mode().IsRegular() {
			files = append(files, f.entry(name, about))
		}
		return nil
	})
	return files
}

func skip(entry fs.DirEntry) error {
	if entry != nil && entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func (f *folder) entry(name string, about fs.FileInfo) *Entry {
	return &Entry{
		uri:      f.prefix + escapePath(name),
		name:     name,
		Mime:     mimeOf(f.prefix, name),
		size:     about.Size(),
		modified: about.ModTime(),
	}
}

// escapePath percent-encodes each segment of a path.
func escapePath(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = escapeValue(parts[i])
	}
	return strings.Join(parts, "/")
}

// Media types of HTML pages of apps.
const (
	AppType       = "text/html;profile=mcp-app"
	skybridgeType = "text/html+skybridge"
)

// isPage reports whether a resource is a page of an app although its API declares only text/html.
func isPage(uri, mediaType string) bool {
	return strings.HasPrefix(uri, "ui://") && mediaType == "text/html"
}

// pageType returns MediaType if it is the type of an app's page, otherwise "".
func pageType(mediaType string) string {
	if mediaType == AppType || mediaType == skybridgeType {
		return mediaType
	}
	return ""
}

// mimeOf returns the media type for the extension of a file name, or "" if it is unknown.
func mimeOf(uri, name string) string {
	extension := strings.ToLower(path.Ext(filepath.ToSlash(name)))
	if strings.HasPrefix(uri, "ui://") && (extension == ".html" || extension == ".htm") {
		return AppType
	}
	switch extension {
	case "":
		return ""
	case ".md", ".markdown":
		return "text/markdown"
	case ".txt", ".log":
		return "text/plain"
	case ".yaml", ".yml":
		return "application/yaml"
	case ".toml":
		return "application/toml"
	case ".csv":
		return "text/csv"
	case ".jsonl", ".ndjson":
		return "application/x-ndjson"
	case ".wav":
		return "audio/wav"
	}
	return httpheader.MediaType(mime.TypeByExtension(extension))
}

// TypeOf returns the declared media type, or else one derived from the content.
func TypeOf(declared string, data []byte) string {
	switch {
	case declared != "":
		return declared
	case utf8.Valid(data):
		return "text/plain"
	}
	return "application/octet-stream"
}

// readable reports whether content of that type is sent as text. Text that is not valid UTF-8 is
// sent as bytes.
func readable(mediaType string, data []byte) bool {
	base := httpheader.MediaType(mediaType)
	return (httpheader.IsText(base) || httpheader.IsJSON(base)) && utf8.Valid(data)
}

// Read returns the content of a file resource and its media type. If the file does not exist, or
// clients must not read it, the error is fs.ErrNotExist.
func (t Target) Read(ctx context.Context) (body []byte, mediaType string, err error) {
	if t.Live != nil {
		body, err = t.Live(ctx)
		return body, t.Mime, err
	}
	if t.skill != nil {
		return t.skill.Content, t.Mime, nil
	}
	f, mediaType := t.file, t.Mime
	if t.folder != nil {
		var ok bool
		if f, ok = t.folder.file(t.bindings[0].value); !ok {
			return nil, "", fs.ErrNotExist
		}
		mediaType = mimeOf(t.URI, f.path)
	}
	body, err = f.read()
	switch {
	case err == nil:
		return body, TypeOf(mediaType, body), nil
	case errors.Is(err, ErrFileSize):
		return nil, "", err
	case errors.Is(err, errNotRegular) || t.folder != nil: // this includes a path that leads out of its folder
		return nil, "", fs.ErrNotExist
	}
	return nil, "", err
}

// FileStamp returns the version of a file resource: its size and modification time, or the digest of a file of a skill. It
// is "gone" for a file that clients must not read, and the content of a Live. ok is false if the version is unknown.
func (t Target) FileStamp(ctx context.Context) (stamp string, ok bool) {
	if t.Live != nil {
		body, err := t.Live(ctx)
		return string(body), err == nil
	}
	if t.skill != nil {
		return t.skill.Digest, true
	}
	f := t.file
	if t.folder != nil {
		if f, ok = t.folder.file(t.bindings[0].value); !ok {
			return "gone", true
		}
	}
	return f.stamp()
}

// ContentType returns the media type of a response of the API to a read of the resource. declared is
// the type that the response has.
func (t Target) ContentType(declared string, body []byte) string {
	declared = cmp.Or(declared, t.Mime)
	if isPage(t.URI, declared) {
		declared = cmp.Or(pageType(t.Mime), AppType)
	}
	return TypeOf(declared, body)
}
