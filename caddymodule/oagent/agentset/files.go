package agentset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/dustin/go-humanize"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/watch"
	"github.com/fairwayhq/fairway/oagent"
)

// ReadFiles returns the valid agents of all files, in the order of the files. If a file is
// invalid or two agents have the same name, the error lists all problems.
func ReadFiles(paths []string) ([]*oagent.Agent, error) {
	var agents []*oagent.Agent
	var problems []error
	from := make(map[string]*oagent.Agent)
	for _, path := range paths {
		read, err := readFile(path)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		for _, a := range read {
			if other := from[a.Name]; other != nil {
				problems = append(problems, fmt.Errorf("%s:%d: agent name %s is already used at %s:%d: give each agent its own name",
					a.Location, a.Line, a.Name, other.Location, other.Line))
				continue
			}
			from[a.Name] = a
			agents = append(agents, a)
		}
	}
	return agents, errors.Join(problems...)
}

func readFile(path string) ([]*oagent.Agent, error) {
	file, err := os.Open(path) // a command may get a pipe, which watch.File does not read
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: check the path; relative paths start at Caddy's working directory", err)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%w: give Caddy's user read permission", err)
	case err != nil:
		return nil, err
	}
	defer file.Close()
	content, err := buffer.ReadLimited(file, oagent.MaxDocument)
	switch {
	case errors.Is(err, buffer.ErrTooLarge):
		return nil, fmt.Errorf("%s is larger than %s, the limit for a file of agent documents: split it", path, humanize.IBytes(oagent.MaxDocument))
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return oagent.ReadAgents(content, path)
}

// fileState is what is known about a file of agent documents.
type fileState struct {
	state *watch.State
	err   string // of the last check
}

// updateStates checks the files, and reports whether one has changed since the last check. An error
// counts as a change when it appears and when it ends.
func (l *Loader) updateStates() bool {
	changed := false
	for i, path := range l.options.Files {
		known := &l.states[i]
		_, state, differs, err := watch.File{Path: path, MaxSize: oagent.MaxDocument}.Read(known.state)
		message := ""
		if err != nil {
			state, message = known.state, err.Error()
		}
		changed = changed || differs || message != known.err
		*known = fileState{state, message}
	}
	return changed
}
