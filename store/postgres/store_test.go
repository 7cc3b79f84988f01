package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/postgres"
	"github.com/fairwayhq/fairway/store/storetest"
)

// query returns the single value of a statement, read without the store.
func query[T any](t testing.TB, address, statement string, arguments ...any) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "SET search_path TO "+postgres.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), statement, arguments...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return value
}

// change returns a change to a value.
func change(value string) store.Change {
	return store.Change{Value: []byte(value), TTL: time.Hour}
}

func put(t testing.TB, s store.Store, key string, c store.Change) {
	t.Helper()
	if err := s.Put(t.Context(), key, c); err != nil {
		t.Fatal(err)
	}
}

// TestCheck checks that errors about invalid addresses contain no secret.
func TestCheck(t *testing.T) {
	for _, address := range []string{
		"", "127.0.0.1:5432", "http://:hunter2@host", "postgres://user:hunter2@host:port/db", "postgres://:hunter2%@host/0",
		"host=host password=hunter2", "postgres://user:hunter2@ho st/db", "postgres://user:hunter2@host/db?sslmode=hunter2",
		"postgres:5432", "postgres://user:hunter2@/db", "postgres://user:hunter2@:5432/db", "postgresql:///db",
	} {
		_, err := postgres.Open(address, postgres.Options{})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "postgres://user:password@host") {
			t.Errorf("%s: error %v", address, err)
		}
	}
	for _, address := range []string{
		"postgres://host", "postgresql://user:secret@host:6543/db?sslmode=require", "postgres://a,b:5433/db?target_session_attrs=read-write",
		"postgres:///db?host=/run/postgresql",
	} {
		if err := postgres.Check(address, "s_1"); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// all calls each method and returns the errors.
func all(ctx context.Context, s *postgres.Store) map[string]error {
	_, getErr := s.Get(ctx, "k")
	_, readErr := s.Read(ctx, "k", 0, 1)
	_, keysErr := s.Keys(ctx, "", "", 1)
	_, waitErr := s.Wait(ctx, "k", []byte("x"))
	_, _, takeErr := s.Queue("q").Take(ctx, "a", nil)
	return map[string]error{
		"Get": getErr, "Read": readErr, "Keys": keysErr, "Wait": waitErr,
		"Put": s.Put(ctx, "k", change("x")), "Delete": s.Delete(ctx, "k"),
		"Update": s.Update(ctx, "k", func(store.Record) (store.Change, error) { return change("x"), nil }),
		"Push":   s.Queue("q").Push(ctx, store.Job{ID: "1"}, ""), "Take": takeErr,
	}
}

// TestTLS checks sslmode=verify-full: the store sends nothing to a server without a certificate of the CA for its name.
func TestTLS(t *testing.T) {
	server, plain := storetest.NewPostgres(t)
	_, certificate, key := storetest.Certificate(t)
	server.StartTLS(t, certificate, key)
	untrusting := strings.Replace(plain, "sslmode=disable", "sslmode=verify-full", 1)
	address := untrusting + "&sslrootcert=" + certificate
	s := openStore(t, address)
	put(t, s, "k", change("x"))
	if r, err := s.Get(t.Context(), "k"); err != nil || string(r.Value) != "x" {
		t.Errorf("%q, error %v", r.Value, err)
	}
	const count = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'fairway' AND ssl = $1"
	if secure, open := query[int](t, plain, count, true), query[int](t, plain, count, false); secure == 0 || open > 0 {
		t.Errorf("%d connections with TLS, %d without", secure, open)
	}
	for name, address := range map[string]string{
		"without the CA": untrusting, "another name": strings.Replace(address, "127.0.0.1", "localhost", 1),
	} {
		if _, err := postgres.Open(address, postgres.Options{}); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDown checks that each method fails quickly with a clear error, and that Wait, Take and all methods work again after
// the server has crashed and recovered.
func TestDown(t *testing.T) {
	server, address := storetest.NewPostgres(t)
	here, there := openStore(t, address), openStore(t, address)
	put(t, here, "k", change("x"))
	put(t, here, "kept", change("y"))
	// Callers of Wait and Take repeat them after an error.
	waited, taken := make(chan string, 1), make(chan string, 1)
	go func() {
		for {
			if r, err := here.Wait(t.Context(), "k", []byte("x")); err == nil {
				waited <- string(r.Value)
				return
			}
		}
	}()
	go func() {
		for {
			if job, _, err := here.Queue("q").Take(t.Context(), "a", nil); err == nil {
				taken <- job.ID
				return
			}
		}
	}()
	server.Stop()
	var clients sync.WaitGroup
	start := time.Now()
	for range 16 {
		clients.Go(func() {
			for name, err := range all(t.Context(), there) {
				if err == nil || !strings.Contains(err.Error(), "postgres at 127.0.0.1:") || strings.Contains(err.Error(), storetest.PostgresPassword) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	clients.Wait()
	if took := time.Since(start); took > testkit.Patience {
		t.Errorf("that took %s", took)
	}
	server.Start(t)
	if r, err := there.Get(t.Context(), "kept"); err != nil || string(r.Value) != "y" {
		t.Errorf("after the restart: %q, error %v", r.Value, err)
	}
	put(t, there, "k", change("z"))
	if err := there.Queue("q").Push(t.Context(), store.Job{ID: "1"}, ""); err != nil {
		t.Error(err)
	}
	for what, got := range map[string]<-chan string{"z": waited, "1": taken} {
		select {
		case value := <-got:
			if value != what {
				t.Errorf("got %q, want %q", value, what)
			}
		case <-time.After(testkit.Patience):
			t.Fatalf("timed out waiting for %q", what)
		}
	}
}

// TestSilent connects to a server that accepts connections and never responds.
func TestSilent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = postgres.Open("postgres://user:hunter2@"+listener.Addr().String()+"/db?connect_timeout=1", postgres.Options{})
	if err == nil || !testkit.ContainsAll(err.Error(), "time") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v", err)
	}
}

func TestPassword(t *testing.T) {
	address := strings.Replace(storetest.Postgres(t), storetest.PostgresPassword, "wrong-secret", 1)
	_, err := postgres.Open(address, postgres.Options{})
	if err == nil || !strings.Contains(err.Error(), "28P01") || strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("error %v", err)
	}
}

// TestSchema checks that stores with different schemas are isolated.
func TestSchema(t *testing.T) {
	address := storetest.Postgres(t)
	var stores []store.Store
	for _, schema := range []string{"a", "b"} {
		s, err := postgres.Open(address, postgres.Options{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		stores = append(stores, s)
		put(t, s, schema, change(schema))
	}
	keys, err := stores[0].Keys(t.Context(), "", "", 10)
	if err != nil || len(keys) != 1 || keys[0] != "a" {
		t.Errorf("keys %q, error %v", keys, err)
	}
	if _, err := stores[1].Get(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

// TestMigrate opens many stores at once in an empty database, each of which wants to create the schema.
func TestMigrate(t *testing.T) {
	address := storetest.Postgres(t)
	var nodes sync.WaitGroup
	for range 8 {
		nodes.Go(func() {
			s, err := postgres.Open(address, postgres.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			_ = s.Close()
		})
	}
	nodes.Wait()
	if got := query[int](t, address, "SELECT count(*) FROM versions"); got != postgres.NewestVersion {
		t.Errorf("%d versions were recorded", got)
	}
}

// TestMigrate_rejects checks that a schema that cannot be used stays as it is.
func TestMigrate_rejects(t *testing.T) {
	for name, test := range map[string]struct{ statements, want string }{
		"newer":   {"CREATE TABLE fairway.versions (version int); INSERT INTO fairway.versions VALUES (99)", "version 99 newer Fairway"},
		"foreign": {"CREATE TABLE fairway.records (other int)", "records already exists"},
	} {
		t.Run(name, func(t *testing.T) {
			address := storetest.Postgres(t)
			query[int](t, address, "SELECT 1")
			exec(t, address, "CREATE SCHEMA fairway; "+test.statements)
			before := query[int](t, address, "SELECT count(*) FROM pg_class")
			_, err := postgres.Open(address, postgres.Options{})
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if after := query[int](t, address, "SELECT count(*) FROM pg_class"); after != before {
				t.Errorf("%d tables and indexes were added", after-before)
			}
		})
	}
}

// exec runs statements without the store.
func exec(t testing.TB, address, statements string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), statements); err != nil {
		t.Fatal(err)
	}
}

// TestRights opens the store as a user who may not create schemas.
func TestRights(t *testing.T) {
	address := storetest.Postgres(t)
	exec(t, address, "DROP ROLE IF EXISTS node; CREATE ROLE node LOGIN PASSWORD 'node'")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("node", "node")
	if _, err := postgres.Open(u.String(), postgres.Options{}); err == nil || !testkit.ContainsAll(err.Error(), "creating schema fairway permission") {
		t.Errorf("error %v", err)
	}
	exec(t, address, "CREATE SCHEMA fairway AUTHORIZATION node")
	s := openStore(t, u.String())
	put(t, s, "k", change("x"))
}

// TestSweep checks that expired and deleted records leave nothing in the
// database.
func TestSweep(t *testing.T) {
	address := storetest.Postgres(t)
	s := openStore(t, address)
	entries := [][]byte{[]byte("1"), []byte("2")}
	for i := range 50 {
		put(t, s, fmt.Sprint("expires", i), store.Change{Entries: entries, TTL: time.Millisecond, Owner: "user ada"})
		put(t, s, fmt.Sprint("deleted", i), store.Change{Entries: entries, TTL: time.Hour, Owner: "user bob"})
	}
	for i := range 50 {
		if err := s.Delete(t.Context(), fmt.Sprint("deleted", i)); err != nil {
			t.Fatal(err)
		}
	}
	const left = `SELECT (SELECT count(*) FROM records) + (SELECT count(*) FROM entries) + (SELECT count(*) FROM deleted_logs) + (SELECT count(*) FROM owner_bytes)`
	for deadline := time.Now().Add(testkit.Patience); ; {
		if n := query[int](t, address, left); n == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d rows are left", n)
		}
	}
}
