package redis_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/redis"
	"github.com/fairwayhq/fairway/store/storetest"
)

// place is what a child process opens.
type place struct {
	Address   string
	Prefix    string
	Cluster   bool
	Sentinel  string
	Addresses []string
	Password  string // of the sentinels
}

// openPlace opens an address, or the JSON of a place.
func openPlace(address string) (*redis.Store, error) {
	at := place{Address: address}
	if strings.HasPrefix(address, "{") {
		if err := json.Unmarshal([]byte(address), &at); err != nil {
			return nil, err
		}
	}
	return redis.Open(at.Address, redis.Options{Prefix: at.Prefix, Cluster: at.Cluster, Sentinel: at.Sentinel, Addresses: at.Addresses, SentinelPassword: at.Password})
}

// runPrefixed runs the suite on servers that its tests share, each test with a prefix of its own.
func runPrefixed(t *testing.T, address string, options redis.Options) {
	storetest.Run(t, func(t *testing.T) storetest.Place {
		options := options
		options.Prefix = strings.ReplaceAll(t.Name(), " ", "_") + ":"
		encoded, err := json.Marshal(place{address, options.Prefix, options.Cluster, options.Sentinel, options.Addresses, options.SentinelPassword})
		if err != nil {
			t.Fatal(err)
		}
		return storetest.Place{
			Address: string(encoded),
			Nodes:   true,
			Open:    func(t testing.TB) store.Store { return openWith(t, address, options) },
		}
	})
}

// TestOptions checks that options that contradict each other are refused, without secrets.
func TestOptions(t *testing.T) {
	const url = "redis://:hunter2@host:6379"
	for want, test := range map[string]struct {
		address string
		options redis.Options
	}{
		"exclude each other": {url, redis.Options{Cluster: true, Sentinel: "mymaster"}},
		"database 2":         {url + "/2", redis.Options{Cluster: true}},
		"host":               {"unix:///run/redis.sock", redis.Options{Sentinel: "mymaster"}},
		"several addresses":  {url, redis.Options{Addresses: []string{"host:6380"}}},
		"address 2":          {url, redis.Options{Cluster: true, Addresses: []string{"host:6380", "redis://:hunter2@host:6381"}}},
		"no password":        {url, redis.Options{Sentinel: "mymaster", SentinelUser: "hunter2"}},
		"needs the option":   {url, redis.Options{SentinelPassword: "hunter2"}},
		"hash tag":           {url, redis.Options{Cluster: true, Prefix: "{a}:"}},
	} {
		if err := redis.Check(test.address, test.options); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s, %+v: error %v, want %q", test.address, test.options, err, want)
		}
	}
}
