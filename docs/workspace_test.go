package docs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// update makes the tests write the output of commands into the pages.
var update = flag.Bool("update", false, "write the output of commands into the pages")

const (
	startTimeout   = time.Minute // until a Caddy serves; a busy machine is slow
	commandTimeout = time.Minute
)

// A workspace is a copy of the folder of an example, with free ports. Commands of pages and the
// Caddy of the example run in it.
type workspace struct {
	t     *testing.T
	dir   string
	ports map[string]string // the ports that pages name, and the free ones
	env   []string
	log   *log // of all Caddy processes

	started []func() // stop the Caddy processes
}

// newWorkspace copies the examples and the demo document, and changes the ports of the copied
// example. Its xcaddy.sh runs this program.
func newWorkspace(t *testing.T, dir string) *workspace {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the commands of the pages are for a POSIX shell")
	}
	for _, program := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			testkit.Missing(t, "%s is not installed", program)
		}
	}
	w := &workspace{t: t, ports: map[string]string{}, log: &log{}}
	for _, port := range []int{2019, 8080, 8081, 8082, 8083, 8084, 8085} {
		w.ports[strconv.Itoa(port)] = strconv.Itoa(testkit.FreePort(t))
	}
	copied, state := t.TempDir(), t.TempDir()
	for _, name := range []string{"examples", "testdata/demo.openapi.yaml", "testdata/models"} {
		w.copyTree(name, copied)
	}
	w.dir = filepath.Join(copied, dir)
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}

	// In the commands, caddy is this program.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(state, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", caddyVariable, program)
	if err := os.WriteFile(filepath.Join(bin, "caddy"), []byte(wrapper), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, "xcaddy.sh"), []byte(wrapper), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	w.env = append(os.Environ(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+state, "LC_ALL=C.UTF-8",
		"XDG_DATA_HOME="+filepath.Join(state, "data"), "XDG_CONFIG_HOME="+filepath.Join(state, "config"),
		"CADDY_ADMIN=localhost:"+w.ports["2019"], "MCP_URL=http://localhost:"+w.ports["8080"]+"/mcp",
		"no_proxy=localhost,127.0.0.1")
	return w
}

func (w *workspace) copyTree(name, to string) {
	w.t.Helper()
	from := filepath.Join(root, name)
	err := filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			if entry.Name() == "example-data" {
				return filepath.SkipDir
			}
			return os.MkdirAll(target, 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if name == "examples" {
			data = []byte(w.freePorts(string(data)))
		}
		return os.WriteFile(target, data, info.Mode().Perm()|0o600)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

var documentedPort = regexp.MustCompile(`\b(2019|808[0-5])\b`)

func (w *workspace) freePorts(text string) string {
	return documentedPort.ReplaceAllStringFunc(text, func(port string) string { return w.ports[port] })
}

// documented is the reverse of freePorts, for the output of commands.
func (w *workspace) documented(text string) string {
	for port, free := range w.ports {
		text = regexp.MustCompile(`\b`+free+`\b`).ReplaceAllString(text, port)
	}
	return text
}

// caddy runs Caddy in the workspace until the test ends, and waits until it serves.
func (w *workspace) caddy(env []string, args ...string) {
	t := w.t
	t.Helper()
	started := &log{also: w.log}
	cmd := exec.Command("caddy", args...) //nolint:gosec // the arguments are those of the table
	for _, entry := range w.env {
		if path, found := strings.CutPrefix(entry, "PATH="); found {
			cmd.Path = filepath.Join(filepath.SplitList(path)[0], "caddy")
		}
	}
	cmd.Err = nil
	cmd.Dir, cmd.Env = w.dir, slices.Concat(w.env, env)
	cmd.Stdout, cmd.Stderr = started, started
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop := sync.OnceFunc(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Errorf("caddy ended during the test: %v", err)
		}
		select {
		case <-ended:
		case <-time.After(startTimeout):
			_ = cmd.Process.Kill()
			t.Error("caddy did not stop")
		}
		if t.Failed() {
			t.Logf("log of caddy:\n%s", started)
		}
	})
	w.started = append(w.started, stop)
	t.Cleanup(stop)
	testkit.Eventually(t, "caddy to serve", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("caddy ended: %v\n%s", err, started)
		default:
		}
		return strings.Contains(started.String(), "serving initial configuration")
	})
}

// stop stops the Caddy processes.
func (w *workspace) stop() {
	for _, stop := range w.started {
		stop()
	}
	w.started = nil
}

// startLine is a command of a page that starts Caddy: variables, the program, its arguments.
var startLine = regexp.MustCompile(`(?m)^((?:\w+=\S+ )*)(?:(?:\.\./\.\.|\.)/xcaddy\.sh (?:--with \S+ )*|caddy )(run.*)$`)

// runPage does what the page says, in its order: it writes files, starts Caddy, and runs the
// commands in console blocks. A block with the mode "restart" or "stop" stops what runs first. It compares their output with the page, in which "…" matches
// any text. The variables env replace those of the page.
func (w *workspace) runPage(path string, env []string) {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		w.t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	_, found := page{path, lines}.split()
	var changed []string // the page with the output as it is
	copied, commands := 0, 0
	for _, b := range found {
		if name, isFile := strings.CutPrefix(b.mode, "file="); isFile {
			if err := os.WriteFile(filepath.Join(w.dir, name), []byte(w.freePorts(b.text)), 0o600); err != nil {
				w.t.Fatal(err)
			}
		}
		switch b.language {
		case "sh":
			if b.mode == "restart" || b.mode == "stop" {
				w.stop()
			}
			for _, line := range startLine.FindAllStringSubmatch(b.text, -1) {
				variables := strings.Fields(w.freePorts(line[1]))
				w.caddy(append(variables, env...), strings.Fields(line[2])...)
				w.env = append(append(w.env, variables...), env...)
			}
		case "console":
			text := strings.Split(strings.TrimSuffix(b.text, "\n"), "\n")
			changed = append(append(changed, lines[copied:b.line]...), w.runBlock(b, text)...)
			copied = b.line + len(text)
			commands++
		}
	}
	if commands == 0 {
		w.t.Errorf("%s has no console block", path)
	}
	if *update {
		changed = append(changed, lines[copied:]...)
		if err := os.WriteFile(filepath.Join(root, path), []byte(strings.Join(changed, "\n")), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// runBlock runs the commands of a console block, and returns the block with their output.
func (w *workspace) runBlock(b block, text []string) (changed []string) {
	w.t.Helper()
	for i := 0; i < len(text); {
		first := i
		command, isCommand := strings.CutPrefix(text[i], "$ ")
		if !isCommand {
			w.t.Fatalf("%s:%d: a console block begins with a command, \"$ …\"", b.page, b.line+1+i)
		}
		for strings.HasSuffix(command, "\\") && i+1 < len(text) {
			i++
			command += "\n" + text[i]
		}
		i++
		changed = append(changed, text[first:i]...)
		begin := i
		for i < len(text) && !strings.HasPrefix(text[i], "$ ") {
			i++
		}
		want, got := strings.Join(text[begin:i], "\n"), w.run(command)
		switch {
		case matches(want, got):
			changed = append(changed, text[begin:i]...)
		case *update:
			changed = append(changed, strings.Split(got, "\n")...)
		default:
			w.t.Errorf("%s:%d: %s\nprints\n%s\nthe page says\n%s", b.page, b.line+1+first, command, got, want)
		}
	}
	return changed
}

// run runs a command of a page and returns its output with the ports of the page.
func (w *workspace) run(command string) string {
	cmd := exec.CommandContext(w.t.Context(), "sh", "-c", w.freePorts(command)) //nolint:gosec // the command is in a page of this repository
	cmd.Dir, cmd.Env, cmd.WaitDelay = w.dir, w.env, commandTimeout
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	text := strings.TrimRight(strings.ReplaceAll(output.String(), "\r\n", "\n"), "\n")
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 1 {
		text += fmt.Sprintf("\n(exit status %d)", exit.ExitCode())
	}
	return w.documented(text)
}

// matches compares the output of a command with what the page says.
func matches(want, got string) bool {
	parts := strings.Split(want, "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(got)
}

// log keeps what processes print.
type log struct {
	also *log
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	if l.also != nil {
		_, _ = l.also.Write(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
