package skills

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/yamltree"
)

const (
	maxEntries = 20_000          // files and folders below a directory
	maxDepth   = 16              // levels of folders
	maxTotal   = 64 << 20        // bytes of all skills of a directory
	maxURI     = 2048            // bytes of the URI of a file
	clockGrain = 2 * time.Second // how far the times of a file system may be apart from the clock
)

// A Directory reads the skills below a directory again when a file has changed. It must not be copied.
type Directory struct {
	Path string

	seen    []found // at the last Read
	faults  string  // problems of finding them
	settled bool    // every file was last written well before that Read
	failed  error   // of that Read
	hash    [sha256.Size]byte
}

// found is a file below a directory.
type found struct {
	name string // path below the directory
	info fs.FileInfo
}

func (f found) equal(other found) bool {
	return f.name == other.name && os.SameFile(f.info, other.info) && f.info.Size() == other.info.Size() && f.info.ModTime().Equal(other.info.ModTime())
}

// Read returns the skills below the directory. If they have not changed since the last Read, changed is false and the Set is
// nil. An error is of type FileErrors, unless the directory itself cannot be read. It is returned again until a file changes.
//
// Files and folders whose names begin with a dot are left out. Symbolic links are followed inside the directory; one that
// leads out of it is a problem.
func (d *Directory) Read() (set *Set, changed bool, err error) {
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	began := time.Now()
	r := reader{directory: d.Path, root: root}
	r.scan(".", 0)
	faults := r.problems.Error()
	if d.settled && faults == d.faults && slices.EqualFunc(r.found, d.seen, found.equal) {
		return nil, false, d.failed
	}
	d.seen, d.faults, d.failed = r.found, faults, nil
	d.settled = !slices.ContainsFunc(r.found, func(f found) bool { return f.info.ModTime().After(began.Add(-clockGrain)) })
	set = r.read()
	if len(r.problems) > 0 {
		d.failed = r.problems
		return nil, false, d.failed
	}
	if set.Hash == d.hash {
		return nil, false, nil
	}
	d.hash = set.Hash
	return set, true, nil
}

// A reader reads a directory once.
type reader struct {
	directory string
	root      *os.Root
	found     []found
	entries   int
	problems  FileErrors
}

func (r *reader) problem(name string, err error) {
	line := 0
	if at, ok := errors.AsType[*yamltree.Error](err); ok {
		line, err = at.Line, at.Err
	}
	r.problems.add(r.directory, name, line, err)
}

// scan adds the files of a folder and of the folders below it.
func (r *reader) scan(folder string, depth int) {
	list, err := fs.ReadDir(r.root.FS(), folder)
	if err != nil {
		r.problem(folder, err)
		return
	}
	for _, entry := range list {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if r.entries++; r.entries >= maxEntries {
			if r.entries == maxEntries {
				r.problem(".", fmt.Errorf("has more than %d files and folders", maxEntries))
			}
			return
		}
		name := path.Join(folder, entry.Name())
		isLink := entry.Type()&fs.ModeSymlink != 0
		info, err := entry.Info()
		if isLink {
			info, err = r.root.Stat(name)
		}
		switch {
		case err != nil && isLink:
			r.problem(name, errors.New("is a symbolic link that leads out of the directory or to nothing; put the file itself there"))
		case errors.Is(err, fs.ErrNotExist): // it has just been deleted
		case err != nil:
			r.problem(name, err)
		case info.IsDir() && depth == maxDepth:
			r.problem(name, fmt.Errorf("folders nest deeper than %d levels", maxDepth))
		case info.IsDir():
			r.scan(name, depth+1)
		case !info.Mode().IsRegular():
			r.problem(name, errors.New("is not a regular file"))
		default:
			r.found = append(r.found, found{name, info})
		}
	}
}

// read reads the files that were found, as far as they belong to skills.
func (r *reader) read() *Set {
	files := make(map[string][]found) // of each skill, by its folder
	for _, f := range r.found {
		switch base := path.Base(f.name); {
		case f.name == FileName:
			r.problem(f.name, errors.New("must be in a folder with the name of the skill; give skills the directory that has this folder"))
		case base == FileName:
			files[path.Dir(f.name)] = nil
		case strings.EqualFold(base, FileName):
			r.problem(f.name, errors.New("makes no skill: the file must be named "+FileName))
		}
	}
	var total int64
	set := new(Set)
	read := make(map[string]*File)
	for _, f := range r.found {
		used := false
		for folder := path.Dir(f.name); folder != "."; folder = path.Dir(folder) {
			if _, isSkill := files[folder]; isSkill {
				files[folder] = append(files[folder], f)
				used = true
			}
		}
		if !used {
			continue
		}
		if total += f.info.Size(); total > maxTotal {
			r.problem(".", fmt.Errorf("the skills have more than %d MiB together", maxTotal>>20))
			return nil
		}
		if file := r.readFile(f); file != nil {
			read[f.name] = file
			set.Files = append(set.Files, file)
		}
	}
	sum := sha256.New()
	for _, f := range r.found {
		if folder := path.Dir(f.name); path.Base(f.name) == FileName && read[f.name] != nil {
			if s := r.skill(folder, files[folder], read); s != nil {
				set.Skills = append(set.Skills, s)
				sum.Write(s.Entry)
			}
		}
	}
	set.Hash = [sha256.Size]byte(sum.Sum(nil))
	return set
}

// readFile returns a file with its content, or nil.
func (r *reader) readFile(f found) *File {
	if f.info.Size() > MaxSize {
		r.problem(f.name, fmt.Errorf("has more than %d MiB", MaxSize>>20))
		return nil
	}
	opened, err := r.root.Open(f.name)
	if err != nil {
		r.problem(f.name, err)
		return nil
	}
	defer opened.Close()
	content := buffer.Get()
	defer buffer.Put(content)
	err = content.ReadAll(opened, f.info.Size())
	if errors.Is(err, buffer.ErrTooLarge) {
		err = errors.New("was changed while it was read")
	}
	if err != nil {
		r.problem(f.name, err)
		return nil
	}
	file := newFile(f.name, bytes.Clone(content.B), f.info.ModTime())
	if len(file.URI) > maxURI {
		r.problem(f.name, fmt.Errorf("has a URI of more than %d bytes", maxURI))
		return nil
	}
	return file
}

// skill returns the skill of a folder with these files, or nil.
func (r *reader) skill(folder string, list []found, read map[string]*File) *Skill {
	files := make([]*File, 0, len(list))
	size := 0
	for _, f := range list {
		if file := read[f.name]; file != nil {
			files = append(files, file)
			size += len(file.Content)
		}
	}
	if len(files) > MaxFiles {
		r.problem(folder, fmt.Errorf("the skill has %d files; the limit is %d", len(files), MaxFiles))
	}
	if size > MaxSize {
		r.problem(folder, fmt.Errorf("the skill has %d bytes; the limit is %d", size, MaxSize))
	}
	own := read[path.Join(folder, FileName)]
	f, err := readFrontmatter(own.Content, path.Base(folder))
	if err != nil {
		r.problem(path.Join(folder, FileName), err)
		return nil
	}
	return newSkill(f, own, files)
}
