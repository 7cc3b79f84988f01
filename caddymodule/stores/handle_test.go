package stores_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/caddymodule/stores"
	_ "github.com/fairwayhq/fairway/caddymodule/stores/redis"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/store/storetest"
)

// provisioned returns the started store of a configuration, and what ends it.
func provisioned(t *testing.T, config string) (*stores.Section, func()) {
	t.Helper()
	s, end := notStarted(t, config)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s, end
}

// notStarted is like provisioned, but does not start the store.
func notStarted(t *testing.T, config string) (*stores.Section, func()) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	s := new(stores.Section)
	if config != "" {
		s.StoreRaw = json.RawMessage(config)
	}
	if err := s.Provision(ctx, new(site.App)); err != nil {
		cancel()
		t.Fatal(err)
	}
	return s, func() {
		cancel()
		if err := s.Cleanup(); err != nil {
			t.Error(err)
		}
	}
}

// boltIn returns the configuration of a store in that file.
func boltIn(file string) string { return fmt.Sprintf(`{"module":"bolt","file":%q}`, file) }

func TestStore_that_is_named_is_opened_at_the_start(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fairway", "store.db")
	app, end := notStarted(t, boltIn(file))
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there before the start: %v", err)
	}
	if err := app.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the file", func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	first, err := app.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	// The next configuration has the same store, and the old one ends.
	next, endNext := provisioned(t, fmt.Sprintf(`{"module":"bolt","file":%q,"max_records":5}`, file))
	end()
	second, err := next.OpenStore(t.Context())
	if err != nil || second != first {
		t.Fatalf("another store over a reload, error %v", err)
	}
	if err := second.Put(t.Context(), "k", store.Change{Value: []byte("x"), TTL: time.Hour}); err != nil {
		t.Errorf("after the old configuration ended: %v", err)
	}
	endNext()
	if _, err := second.Get(t.Context(), "k"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("after the last configuration ended: %v", err)
	}
	unused, endUnused := notStarted(t, boltIn(file))
	endUnused()
	if _, err := unused.OpenStore(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a store that was never opened, after its end: %v", err)
	}
}

// TestStore_counts_for_ready: one that the configuration names from the start, the default store from its first use.
func TestStore_counts_for_ready(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store.db")
	other, err := embedded.Open(file, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	app, end := provisioned(t, boltIn(file))
	defer end()
	if err := app.Check(t.Context()); err == nil {
		t.Error("a store in use by another process is ready")
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "ready", func() bool {
		return app.Check(t.Context()) == nil
	})
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	lazy, endLazy := provisioned(t, "")
	defer endLazy()
	if err := lazy.Check(t.Context()); err != nil {
		t.Errorf("the default store: %v", err)
	}
	if files, _ := filepath.Glob(filepath.Join(caddy.AppDataDir(), "fairway", "store.db")); len(files) > 0 {
		t.Error("the default store is opened before its first use")
	}
}

// TestStore_place_is_validated checks that the load of a configuration fails for what does not pass.
func TestStore_place_is_validated(t *testing.T) {
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	if err := os.WriteFile(foreign, []byte("not a store"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{foreign: "not a store", filepath.Join(foreign, "store.db"): "folder"} {
		ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
		err := (&stores.Section{StoreRaw: json.RawMessage(boltIn(file))}).Provision(ctx, new(site.App))
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

func TestStore_that_does_not_open(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store.db")
	other, err := embedded.Open(file, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	app, end := provisioned(t, boltIn(file))
	defer end()
	for range 2 { // the second time at once
		if _, err := app.OpenStore(t.Context()); err == nil || !testkit.ContainsAll(err.Error(), "use store.db") {
			t.Fatalf("error %v", err)
		}
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	app.RetryNow()
	if _, err := app.OpenStore(t.Context()); err != nil {
		t.Errorf("after the other let go: %v", err)
	}
}

func TestStoreRedis(t *testing.T) {
	address, _ := storetest.Redis(t)
	t.Setenv("STORE_TEST_REDIS", address)
	app, end := provisioned(t, `{"module":"redis","url":"{env.STORE_TEST_REDIS}","prefix":"test:"}`)
	defer end()
	s, err := app.OpenStore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "k", store.Change{Value: []byte("x"), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
}

func TestStore_config_errors(t *testing.T) {
	for name, test := range map[string]struct{ config, want string }{
		"no module":      {`{"file":"x"}`, "module"},
		"unknown module": {`{"module":"badger"}`, "agents.stores.badger"},
		"unknown option": {`{"module":"bolt","prefix":"x"}`, "prefix"},
		"negative limit": {`{"module":"bolt","max_records":-1}`, "negative"},
		"file not set":   {`{"module":"bolt","file":"{env.STORE_TEST_NOT_SET}"}`, "file empty"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
			defer cancel()
			err := (&stores.Section{StoreRaw: json.RawMessage(test.config)}).Provision(ctx, new(site.App))
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestStore_caddyfile_errors wants every error to say what is wrong and in which line.
func TestStore_caddyfile_errors(t *testing.T) {
	for name, test := range map[string]struct{ option, want, line string }{
		"no kind":             {"store", "store bolt redis", ":3"},
		"unknown kind":        {"store badger", "store bolt redis", ":3"},
		"redis without url":   {"store redis", "store redis url", ":3"},
		"redis empty":         {`store redis ""`, "redis url empty", ":3"},
		"too many arguments":  {"store bolt a b", "argument b", ":3"},
		"too many for redis":  {"store redis redis://host b", "argument b", ":3"},
		"bolt with a url":     {"store bolt redis://host", "store bolt file name", ":3"},
		"twice":               {"store bolt\n\t\tstore bolt", "store twice", ":4"},
		"bolt's unknown":      {"store bolt {\n\t\tprefix x\n\t}", "unrecognized store bolt prefix", ":4"},
		"redis's unknown":     {"store redis redis://host {\n\t\tmax_size 1MiB\n\t}", "unrecognized store redis max_size", ":4"},
		"prefix twice":        {"store redis redis://host {\n\t\tprefix a\n\t\tprefix b\n\t}", "prefix twice", ":5"},
		"max_size":            {"store bolt {\n\t\tmax_size much\n\t}", "max_size much size", ":4"},
		"max_records":         {"store bolt {\n\t\tmax_records many\n\t}", "max_records many whole", ":4"},
		"no records":          {"store bolt {\n\t\tmax_records 0\n\t}", "max_records", ":4"},
		"argument of a block": {"store bolt {\n\t\tmax_size 1MiB 2MiB\n\t}", "argument count", ":4"},
	} {
		t.Run(name, func(t *testing.T) {
			caddyfile := "{\n\tagents {\n\t\t" + test.option + "\n\t}\n}"
			_, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
			if err == nil || !testkit.ContainsAll(err.Error(), test.want) || !strings.Contains(err.Error(), "Caddyfile"+test.line) {
				t.Errorf("got %v, want %q and line %s", err, test.want, test.line)
			}
		})
	}
}
