package redis

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/store/storetest"
)

func TestStore_opens_the_server_with_placeholders_replaced(t *testing.T) {
	address, _ := storetest.Redis(t)
	sitetest.CheckSharedStore(t, address, func(url, part string) sitetest.StoreModule { return &Store{URL: url, Prefix: part} })
}

func TestProvision_passes_the_options_on(t *testing.T) {
	t.Setenv("STORE_TEST_ADDRESS", "host:6380")
	t.Setenv("STORE_TEST_PASSWORD", "hunter2")
	s := &Store{URL: "redis://host", Sentinel: "m", Addresses: []string{"{env.STORE_TEST_ADDRESS}"}, SentinelPassword: "{env.STORE_TEST_PASSWORD}"}
	if err := sitetest.Provision(t, s); err != nil {
		t.Fatal(err)
	}
	if o := s.options; o.Sentinel != "m" || o.Addresses[0] != "host:6380" || o.SentinelPassword != "hunter2" {
		t.Errorf("options %+v", o)
	}
	no := filepath.Join(t.TempDir(), "ca.pem")
	for want, bad := range map[string]*Store{
		"database 3":        {URL: "redis://host/3", Cluster: true},
		"tls_ca":            {URL: "rediss://host", TLSCA: no},
		"several addresses": {URL: "redis://host", Addresses: []string{"b:1"}},
	} {
		if err := sitetest.Provision(t, bad); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", bad, err, want)
		}
	}
	if err := os.WriteFile(no, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := sitetest.Provision(t, &Store{URL: "rediss://host", TLSCA: no}); err == nil || !testkit.ContainsAll(err.Error(), "no certificate") {
		t.Errorf("error %v", err)
	}
}

// No error contains a password.
func TestProvision_rejects_a_bad_url(t *testing.T) {
	for url, want := range map[string]string{
		"":                             "url empty",
		"{env.STORE_TEST_NOT_SET}":     "url empty",
		"redis://:hunter2@host:port":   "redis://host:6379/0",
		"http://:hunter2@host":         "redis://host:6379/0",
		"redis://:hunter2@host/db/two": "redis://host:6379/0",
	} {
		if err := sitetest.Provision(t, &Store{URL: url}); err == nil || !testkit.ContainsAll(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: error %v, want %q", url, err, want)
		}
	}
}

func TestUnmarshalCaddyfile_reads_all_options(t *testing.T) {
	for text, want := range map[string]Store{
		"redis redis://host":                      {URL: "redis://host"},
		"redis rediss://host/1 {\n\tprefix a:\n}": {URL: "rediss://host/1", Prefix: "a:"},
		"redis redis://a {\n\tcluster\n}":         {URL: "redis://a", Cluster: true},
		"redis redis://a {\n\tcluster b:1 c:2\n}": {URL: "redis://a", Cluster: true, Addresses: []string{"b:1", "c:2"}},
		"redis redis://a {\n\tsentinel m b:1\n\tsentinel_user u\n\tsentinel_password p\n\ttls_ca ca.pem\n}": {
			URL: "redis://a", Sentinel: "m", Addresses: []string{"b:1"}, SentinelUser: "u", SentinelPassword: "p", TLSCA: "ca.pem",
		},
	} {
		var got Store
		err := got.UnmarshalCaddyfile(caddyfile.NewTestDispenser(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, error %v, want %+v", text, got, err, want)
		}
	}
}

func TestUnmarshalCaddyfile_rejects_bad_options(t *testing.T) {
	for text, want := range map[string]string{
		"redis":                              "redis url",
		`redis ""`:                           "url empty",
		"redis redis://host b":               "argument b",
		"redis redis://host {\n\tsize 1\n}":  "unrecognized redis size",
		"redis redis://host {\n\tprefix\n}":  "prefix",
		"redis r {\nprefix a\nprefix b\n\t}": "prefix twice",
		"redis r {\n\tprefix \"\"\n}":        "value empty",
		"redis r {\n\tsentinel\n}":           "name of the master",
		"redis r {\ncluster\nsentinel m\n}":  "one cluster sentinel",
	} {
		if err := new(Store).UnmarshalCaddyfile(caddyfile.NewTestDispenser(text)); err == nil || !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}
