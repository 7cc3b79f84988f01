package storetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// PostgresPassword is the password of servers of Postgres in tests.
const PostgresPassword = "hunter2"

// superviseScript runs a server until standard input has a line or ends, which is at the latest when the test binary
// ends. In the second case it removes the folder $0.
const superviseScript = `"$@" & trap '' INT TERM; read -r line; kill -QUIT $!; wait; [ "$line" ] || rm -rf -- "$0"`

// sharedPostgres is the server that the tests of a package share. It ends with the test binary.
var sharedPostgres struct {
	sync.Mutex
	server *PostgresServer
}

var databases atomic.Int64

// Postgres returns the address of an empty database, which is emptied at the end of the test. The tests of a package
// share a server. If Postgres is not installed, the test is skipped.
func Postgres(t testing.TB) (address string) {
	t.Helper()
	sharedPostgres.Lock()
	defer sharedPostgres.Unlock()
	if sharedPostgres.server == nil {
		server := newPostgres(t)
		server.Start(t)
		sharedPostgres.server = server
	}
	server := sharedPostgres.server
	var name string
	if last := len(server.free) - 1; last >= 0 {
		name, server.free = server.free[last], server.free[:last]
	} else {
		name = server.create(t)
	}
	t.Cleanup(func() { server.recycle(name) })
	return server.address(name)
}

// NewPostgres starts a server for one test, and returns it with the address of an empty database.
func NewPostgres(t testing.TB) (server *PostgresServer, address string) {
	t.Helper()
	server = newPostgres(t)
	server.Start(t)
	t.Cleanup(func() {
		server.Stop()
		_ = os.RemoveAll(server.folder)
	})
	return server, server.address(server.create(t))
}

// PostgresServer is a server of Postgres on a port of the loopback interface.
type PostgresServer struct {
	programs, folder string
	credential       *syscall.Credential // of the user that runs it, since it refuses to run as root
	port             int
	stop             func()
	free             []string // databases that are empty
}

// newPostgres initializes the folder of a server.
func newPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		testkit.Missing(t, "Postgres is not installed: no initdb in /usr/lib/postgresql/*/bin")
	}
	folder, err := os.MkdirTemp("", "fairway-postgres-") // not that of the test, which may end before the server
	if err != nil {
		t.Fatal(err)
	}
	s := &PostgresServer{programs: filepath.Dir(slices.Max(found)), folder: folder}
	if os.Geteuid() == 0 {
		s.leaveRoot(t)
	}
	password := filepath.Join(folder, "password")
	if err := os.WriteFile(password, []byte(PostgresPassword), 0o644); err != nil { //nolint:gosec // another user reads it
		t.Fatal(err)
	}
	initialize := s.command(filepath.Join(s.programs, "initdb"), "--pgdata", s.data(), "--username", "fairway",
		"--auth", "password", "--pwfile", password, "--encoding", "UTF8", "--locale", "C", "--no-sync")
	if output, err := initialize.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, output)
	}
	return s
}

func (s *PostgresServer) data() string { return filepath.Join(s.folder, "data") }

// leaveRoot chooses another user, who then owns the folder.
func (s *PostgresServer) leaveRoot(t testing.TB) {
	t.Helper()
	other, err := user.Lookup("postgres") // Debian's package creates it
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.ParseUint(other.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(other.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	s.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := os.Chown(s.folder, int(uid), int(gid)); err != nil {
		t.Fatal(err)
	}
}

func (s *PostgresServer) command(program string, arguments ...string) *exec.Cmd {
	command := exec.Command(program, arguments...)
	command.Dir, command.Env = s.folder, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if s.credential != nil {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	}
	return command
}

// Start starts the server, after Stop on the same port.
func (s *PostgresServer) Start(t testing.TB) {
	t.Helper()
	var last error
	for range 3 { // another process may take the port first
		if s.port == 0 {
			s.port = testkit.FreePort(t)
		}
		if last = s.start(t); last == nil {
			return
		}
		s.port = 0
	}
	t.Fatal(last)
}

func (s *PostgresServer) start(t testing.TB) error {
	t.Helper()
	command := s.command("/bin/sh", "-c", superviseScript, s.folder, filepath.Join(s.programs, "postgres"), "-D", s.data(),
		"-c", "port="+strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "max_connections=200", "-c", "shared_buffers=32MB", "-c", "fsync=off", "-c", "full_page_writes=off")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	var last string
	go func() {
		defer close(ended)
		defer func() { _ = command.Wait() }()
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if last = lines.Text(); strings.Contains(last, "database system is ready to accept connections") {
				close(ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, output)
	}()
	s.stop = sync.OnceFunc(func() {
		_, _ = io.WriteString(input, "stop\n")
		<-ended
	})
	select {
	case <-ready:
		return nil
	case <-time.After(patience):
		s.stop()
	case <-ended:
	}
	return fmt.Errorf("postgres does not start: %s", last)
}

// Stop ends the server as a crash does: connections break, and the next start recovers the databases.
func (s *PostgresServer) Stop() { s.stop() }

// Admin runs a statement as the administrator of the server.
func (s *PostgresServer) Admin(ctx context.Context, statement string) error {
	return postgresExec(ctx, s.address("postgres"), statement)
}

// StartTLS makes the server accept connections with TLS too, with the files of a certificate and its key.
func (s *PostgresServer) StartTLS(t testing.TB, certificate, key string) {
	t.Helper()
	for name, from := range map[string]string{"server.crt": certificate, "server.key": key} { // the names that it looks for
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(s.data(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil { //nolint:gosec // a folder of the test
			t.Fatal(err)
		}
		if s.credential != nil {
			if err := os.Chown(path, int(s.credential.Uid), int(s.credential.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, statement := range []string{"ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"} {
		if err := s.Admin(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "connections with TLS", func() bool {
		return postgresExec(t.Context(), strings.Replace(s.address("postgres"), "sslmode=disable", "sslmode=require", 1), "SELECT") == nil
	})
}

func (s *PostgresServer) address(database string) string {
	return fmt.Sprintf("postgres://fairway:%s@127.0.0.1:%d/%s?sslmode=disable", PostgresPassword, s.port, database)
}

func postgresExec(ctx context.Context, address, statement string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// create creates an empty database.
func (s *PostgresServer) create(t testing.TB) (name string) {
	t.Helper()
	name = "test" + strconv.FormatInt(databases.Add(1), 10)
	if err := s.Admin(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return name
}

// emptyDatabase ends the other connections to a database, and removes the schemas that a test has created.
const emptyDatabase = `DO $$
DECLARE name text;
BEGIN
	PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
	FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('public', 'information_schema') LOOP
		EXECUTE format('DROP SCHEMA %I CASCADE', name);
	END LOOP;
END $$`

// recycle empties a database for another test, since a new one costs several times the CPU. The database is not used
// again if that fails.
func (s *PostgresServer) recycle(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := postgresExec(ctx, s.address(name), emptyDatabase); err != nil {
		return
	}
	sharedPostgres.Lock()
	defer sharedPostgres.Unlock()
	s.free = append(s.free, name)
}
