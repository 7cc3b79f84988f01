package openapi

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// Limits on the files that the $refs of one document may load.
const (
	maxFiles     = 256
	maxFilesSize = 256 << 20 // bytes, for all files of a document together
)

// files holds all files of one document. Each is read when a $ref first refers to it.
type files struct {
	refs   string // absolute directory whose files may be read, or ""
	limits Limits

	mutex  sync.Mutex
	opened map[string]*opened // by path relative to refs
	paths  []string           // all paths looked up, in order
	hashes []string           // hashes of the files read
	size   int
}

type opened struct {
	file *File
	err  error
}

// open returns the file that a $ref names in the part before its '#'.
func (fs *files) open(from *File, location string) (*File, error) {
	name, err := fs.name(from, location)
	if err != nil {
		return nil, err
	}
	fs.mutex.Lock()
	defer fs.mutex.Unlock()
	if o := fs.opened[name]; o != nil {
		return o.file, o.err
	}
	if len(fs.opened) >= maxFiles {
		return nil, fmt.Errorf("the document refers to more than %d files", maxFiles)
	}
	o := new(opened)
	o.file, o.err = fs.read(name, from.Version)
	fs.opened[name] = o
	return o.file, o.err
}

// name returns the path of the named file relative to fs.refs.
func (fs *files) name(from *File, location string) (string, error) {
	switch scheme, _, found := strings.Cut(location, ":"); {
	case strings.HasPrefix(location, "//"), found && (scheme == "http" || scheme == "https"):
		return "", errors.New("a $ref to a URL is not followed: copy its target into the document or into a file in the same directory")
	case found && !strings.ContainsAny(scheme, `/\`):
		return "", fmt.Errorf("a $ref to a file must be a relative path, not %q", scheme+":")
	}
	if fs.refs == "" {
		return "", errors.New("other files are read only below the directory of the option refs, which is not set")
	}
	if path, err := url.PathUnescape(location); err == nil {
		location = path
	}
	if strings.ContainsRune(location, 0) || filepath.IsAbs(location) || strings.HasPrefix(location, "/") {
		return "", errors.New("a $ref to a file must be a relative path")
	}
	name, err := filepath.Rel(fs.refs, filepath.Join(from.dir, filepath.FromSlash(location)))
	if err != nil || !filepath.IsLocal(name) {
		return "", fmt.Errorf("the file is outside %s, the directory of the option refs; move it there, or set refs to a directory that contains it", fs.refs)
	}
	return name, nil
}

func (fs *files) read(name string, version Version) (*File, error) {
	path := filepath.Join(fs.refs, name)
	fs.paths = append(fs.paths, path)
	data, err := fs.load(name)
	if err != nil {
		return nil, err
	}
	fs.size += len(data)
	fs.hashes = append(fs.hashes, fmt.Sprintf("%x", sha256.Sum256(data)))
	root, err := Parse(data, fs.limits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return fs.file(path, filepath.Dir(path), root, version, data), nil
}

// file creates a File from the tree of data, which is not shared yet.
func (fs *files) file(name, dir string, root *Node, version Version, data []byte) *File {
	if own, _ := versionOf(root); own != 0 {
		version = own
	}
	if version == Swagger20 {
		modernise(root, false)
	}
	return &File{
		Name: name, Version: version, Version30: version != OpenAPI31, Root: root, files: fs, dir: dir,
		discriminates: bytes.Contains(data, []byte("discriminator")),
	}
}

// load reads a regular file below fs.refs. Symbolic links cannot lead out of that
// directory.
func (fs *files) load(name string) ([]byte, error) {
	root, err := os.OpenRoot(fs.refs)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	stat, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !stat.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	most := min(fs.limits.Size, maxFilesSize-fs.size)
	data, err := buffer.ReadLimited(file, int64(most))
	if errors.Is(err, buffer.ErrTooLarge) {
		return nil, fmt.Errorf("%s is larger than %d bytes, the rest of the limit for all files of the document", name, most)
	}
	return data, err
}

// list returns the paths of all files that were looked up.
func (fs *files) list() []string {
	fs.mutex.Lock()
	defer fs.mutex.Unlock()
	return slices.Clone(fs.paths)
}

// hash returns a hash of the content of all files that were read.
func (fs *files) hash() string {
	fs.mutex.Lock()
	defer fs.mutex.Unlock()
	if len(fs.hashes) == 1 {
		return fs.hashes[0]
	}
	hashes := slices.Sorted(slices.Values(fs.hashes[1:]))
	return fmt.Sprintf("%x", sha256.Sum256([]byte(fs.hashes[0]+strings.Join(hashes, ""))))
}
