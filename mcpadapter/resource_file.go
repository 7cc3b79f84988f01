package mcpadapter

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	maxListedFiles = 1000        // of one folder; the others can be read all the same
	maxScanned     = 20_000      // entries of one folder that are looked at for the list
	maxFolderDepth = 16          // levels below a folder that are listed
	scanInterval   = time.Second // for which a list of files is taken for true
)

// What is wrong with a file.
var (
	errNotRegular = errors.New("is not a regular file")
	errFileSize   = errors.New("is larger than a resource may be")
)

// A file is what a resource is read from.
type file struct {
	path  string
	limit int64  // bytes
	root  string // folder that the path is in and must not lead out of; "" for none
}

// open returns the file for reading. It is a regular one: opening a pipe would
// wait for its writer.
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
	if about.Size() > f.limit {
		return nil, errFileSize
	}
	data, err := io.ReadAll(io.LimitReader(opened, f.limit+1))
	if err == nil && int64(len(data)) > f.limit {
		return nil, errFileSize
	}
	return data, err
}

// stamp tells one state of the file from another.
func (f *file) stamp() (string, bool) {
	opened, about, err := f.open()
	if err != nil {
		return "", errors.Is(err, fs.ErrNotExist)
	}
	_ = opened.Close() // nothing was written
	return fmt.Sprintf("%d %d", about.Size(), about.ModTime().UnixNano()), true
}

// A Folder is a folder whose files clients may read: all but those whose name, or
// that of a folder on the way, begins with a dot, and none outside of it.
type Folder struct {
	Path string

	// Prefix is what the URIs of the files begin with. Default: file:/// and
	// the folder's name. A URI that begins with several prefixes is looked for
	// under the longest.
	Prefix string
}

// A folder keeps the list of its files for a moment.
type folder struct {
	path   string
	prefix string // ends in a slash
	limit  int64

	mu      sync.Mutex
	scanned time.Time
	files   []*resource
}

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

// template returns the folder as a template of its files' URIs.
func (f *folder) template() *resource {
	template, err := parseTemplate(f.prefix + "{+path}")
	if err != nil {
		panic(err) // the prefix is a URI
	}
	return &resource{
		template:    template,
		name:        lastPart(f.prefix),
		description: "Files of the folder " + lastPart(f.prefix) + ".",
		size:        -1,
		folder:      f,
	}
}

// file returns the file at a path below the folder, false if clients may not know
// of it.
func (f *folder) file(name string) (*file, bool) {
	if !fs.ValidPath(name) || name == "." || hidden(name) || strings.ContainsAny(name, `\:`) && filepath.Separator == '\\' {
		return nil, false
	}
	return &file{path: filepath.FromSlash(name), limit: f.limit, root: f.path}, true
}

// hidden reports whether a part of the path begins with a dot.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

// list returns the files that there are, by name.
func (f *folder) list(now time.Time) []*resource {
	f.mu.Lock()
	defer f.mu.Unlock()
	if age := now.Sub(f.scanned); age >= 0 && age < scanInterval {
		return f.files
	}
	f.scanned, f.files = now, f.scan()
	return f.files
}

// scan walks through the folder. What cannot be looked at is not listed.
func (f *folder) scan() (files []*resource) {
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

func (f *folder) entry(name string, about fs.FileInfo) *resource {
	return &resource{
		uri:      f.prefix + escapePath(name),
		name:     name,
		mime:     mimeOf(f.prefix, name),
		size:     about.Size(),
		modified: about.ModTime(),
	}
}

// escapePath percent-encodes each part of a path.
func escapePath(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = escapeValue(parts[i])
	}
	return strings.Join(parts, "/")
}

// The media types of HTML that clients show beside a conversation.
const (
	appType       = "text/html;profile=mcp-app"
	skybridgeType = "text/html+skybridge"
)

// isPage reports whether a resource is a page of an app, as far as an API says it
// that knows no such thing.
func isPage(uri, mediaType string) bool {
	return strings.HasPrefix(uri, "ui://") && mediaType == "text/html"
}

// pageType returns the media type if it is one of a page, "" if not.
func pageType(mediaType string) string {
	if mediaType == appType || mediaType == skybridgeType {
		return mediaType
	}
	return ""
}

// mimeOf returns the media type of a file by its name, "" if the name does not
// say.
func mimeOf(uri, name string) string {
	extension := strings.ToLower(path.Ext(filepath.ToSlash(name)))
	if strings.HasPrefix(uri, "ui://") && (extension == ".html" || extension == ".htm") {
		return appType
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
	return mediaType(mime.TypeByExtension(extension))
}

// typeOf completes the media type of a file by its content.
func typeOf(declared string, data []byte) string {
	switch {
	case declared != "":
		return declared
	case utf8.Valid(data):
		return "text/plain"
	}
	return "application/octet-stream"
}

// readable reports whether content of that type is given as text. What should be
// text and is not valid UTF-8 is given as bytes.
func readable(mediaType string, data []byte) bool {
	media, _, _ := strings.Cut(mediaType, ";")
	kind, subtype, _ := strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
	isText := textual(kind, subtype) || subtype == "json" || strings.HasSuffix(subtype, "+json")
	return isText && utf8.Valid(data)
}
