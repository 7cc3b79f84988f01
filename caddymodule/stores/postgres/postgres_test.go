package postgres

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/store/storetest"
)

func TestStore_opens_the_database_with_placeholders_replaced(t *testing.T) {
	address := storetest.Postgres(t)
	sitetest.CheckSharedStore(t, address, func(url, part string) sitetest.StoreModule { return &Store{URL: url, Schema: part} })
}

// No error contains a password.
func TestProvision_rejects_bad_options(t *testing.T) {
	const url = "postgres://host/db"
	for _, test := range []struct {
		store Store
		want  string
	}{
		{Store{}, "url empty"},
		{Store{URL: "{env.STORE_TEST_NOT_SET}"}, "url empty"},
		{Store{URL: "postgres://user:hunter2@host:port/db"}, "postgres://user:password@host"},
		{Store{URL: "mysql://user:hunter2@host/db"}, "postgres://user:password@host"},
		{Store{URL: "host=host password=hunter2"}, "postgres://user:password@host"},
		{Store{URL: "postgres://user:hunter2@host/db?sslmode=hunter2"}, "postgres://user:password@host"},
		{Store{URL: url, Schema: "Fairway"}, "schema Fairway a-z"},
		{Store{URL: url, Schema: "pg_temp"}, "schema pg_temp"},
		{Store{URL: url, Schema: strings.Repeat("s", 64)}, "schema 63"},
		{Store{URL: url, MaxSize: -1}, "max_size negative"},
	} {
		if err := sitetest.Provision(t, &test.store); err == nil || !testkit.ContainsAll(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: error %v, want %q", test.store, err, test.want)
		}
	}
}

func TestUnmarshalCaddyfile_reads_all_options(t *testing.T) {
	for text, want := range map[string]Store{
		"postgres postgres://host/db":                                   {URL: "postgres://host/db"},
		"postgres postgres://host/db {\n\tschema a\n\tmax_size 1MiB\n}": {URL: "postgres://host/db", Schema: "a", MaxSize: 1 << 20},
	} {
		var got Store
		err := got.UnmarshalCaddyfile(caddyfile.NewTestDispenser(text))
		if err != nil || got != want {
			t.Errorf("%q: got %+v, error %v, want %+v", text, got, err, want)
		}
	}
}

func TestUnmarshalCaddyfile_rejects_bad_options(t *testing.T) {
	for text, want := range map[string]string{
		"postgres":                   "postgres url",
		`postgres ""`:                "url empty",
		"postgres postgres://host b": "argument b",
		"postgres postgres://host {\n\tprefix 1\n}":    "unrecognized postgres prefix",
		"postgres postgres://host {\n\tschema\n}":      "schema",
		"postgres postgres://host {\n\tmax_size 0\n}":  "max_size",
		"postgres p {\n\tschema a\n\tschema b\n}":      "schema twice",
		"postgres postgres://host {\n\tschema \"\"\n}": "value empty",
	} {
		if err := new(Store).UnmarshalCaddyfile(caddyfile.NewTestDispenser(text)); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
