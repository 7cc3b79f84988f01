package redis

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Check validates an address and the options for it. Its errors do not contain secrets.
func Check(address string, options Options) error {
	c, err := newConnection(address, &options)
	if err != nil {
		return err
	}
	return c.client.Close()
}

// newConnection returns the connection to the server, the cluster, or the master that the sentinels name. It does
// not connect. It sets options.Prefix, in a cluster with a hash tag.
func newConnection(address string, options *Options) (*connection, error) {
	settings, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	if err := options.checkServers(settings); err != nil {
		return nil, err
	}
	options.Prefix = cmp.Or(options.Prefix, DefaultPrefix)
	addresses := append([]string{settings.Addr}, options.Addresses...)
	if settings.TLSConfig != nil {
		settings.TLSConfig.RootCAs = options.RootCAs
		if options.Cluster || options.Sentinel != "" {
			settings.TLSConfig.ServerName = "" // each server is verified by its own address
		}
	}
	c := &connection{closing: make(chan struct{}), name: settings.Network + "://" + strings.Join(addresses, ",")}
	switch {
	case options.Cluster:
		// A hash tag: the cluster keeps all keys in one slot, because the scripts change records, indexes and the shares of
		// owners together.
		options.Prefix = "{" + options.Prefix + "}"
		c.slot, c.name = options.Prefix, "cluster "+c.name
		c.client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs:                      addresses,
			ClusterStateReloadInterval: stateInterval,
			NewClient: func(node *redis.Options) *redis.Client {
				o := *settings
				o.Addr, o.NodeAddress = node.Addr, node.NodeAddress
				return redis.NewClient(&o)
			},
		})
	case options.Sentinel != "":
		failover, err := failoverOptions(address, settings, addresses, options)
		if err != nil {
			return nil, err
		}
		c.name = "sentinel " + options.Sentinel + " " + c.name
		c.client = redis.NewFailoverClient(failover)
	default:
		c.client = redis.NewClient(settings)
	}
	return c, nil
}

// parseAddress parses the address. Errors of the libraries may contain the password, so
// they are not wrapped.
func parseAddress(address string) (*redis.Options, error) {
	const shape = "use redis://host:6379/0, rediss://user:password@host:6379 or unix:///path/to/redis.sock, " +
		"and percent-encode special characters in the password"
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the address of Redis is not a URL: " + shape)
	}
	if u.Opaque != "" || (u.Scheme == "unix") != (u.Hostname() == "") { // the library would connect to localhost, or to another socket
		return nil, errors.New("the address of Redis needs // and a host, as redis://redis:6379/0 for the host redis: " + shape)
	}
	settings, err := redis.ParseURL(address)
	if err != nil || settings.Addr == "" {
		return nil, fmt.Errorf("the address of Redis, a URL with scheme %q, is not valid: %s", u.Scheme, shape)
	}
	settings.ContextTimeoutEnabled = true
	settings.MaxRetries = -1 // only this package knows which commands are safe to repeat
	settings.DialerRetries = 1
	settings.DisableIdentity = true
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	for _, timeout := range []*time.Duration{&settings.DialTimeout, &settings.ReadTimeout, &settings.WriteTimeout, &settings.PoolTimeout} {
		if *timeout <= 0 {
			*timeout = requestTimeout
		}
	}
	return settings, nil
}

// checkServers returns an error if the options contradict each other.
func (o *Options) checkServers(settings *redis.Options) error {
	several := o.Cluster || o.Sentinel != ""
	switch {
	case o.Cluster && o.Sentinel != "":
		return errors.New("the options cluster and sentinel exclude each other: remove one of them")
	case several && settings.Network != "tcp":
		return errors.New("the options cluster and sentinel need a URL with a host: redis://host:6379 or rediss://host:6379")
	case o.Cluster && strings.ContainsAny(o.Prefix, "{}"):
		return errors.New("the prefix of the keys in a cluster must not have braces: it gets them as a hash tag")
	case o.Cluster && settings.DB != 0:
		return fmt.Errorf("a cluster has only database 0: remove database %d from the URL of Redis, and separate gateways by prefix", settings.DB)
	case len(o.Addresses) > 0 && !several:
		return errors.New("several addresses of Redis need the option cluster or sentinel")
	case o.Sentinel == "" && o.SentinelUser+o.SentinelPassword != "":
		return errors.New("a user or password for sentinels needs the option sentinel")
	case o.SentinelUser != "" && o.SentinelPassword == "":
		return errors.New("the user for sentinels has no password")
	case o.RootCAs != nil && settings.TLSConfig == nil:
		return errors.New("certificates for TLS need a URL with rediss://")
	}
	for i, address := range o.Addresses {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" || strings.ContainsAny(address, "/@") {
			return fmt.Errorf("address %d after the URL of Redis is not of the form host:port", i+1) // it may be a URL with a password
		}
	}
	return nil
}

// failoverOptions returns the settings for a master that sentinels name. The sentinels use TLS if the master does.
func failoverOptions(address string, s *redis.Options, sentinels []string, o *Options) (*redis.FailoverOptions, error) {
	f, err := redis.ParseFailoverURL(address) // for the parameters of the URL
	if err != nil {
		return nil, errors.New("the URL of Redis has a parameter that is not known with sentinels")
	}
	f.MasterName, f.SentinelAddrs, f.SentinelUsername, f.SentinelPassword = o.Sentinel, sentinels, o.SentinelUser, o.SentinelPassword
	f.Username, f.Password, f.DB, f.TLSConfig = s.Username, s.Password, s.DB, s.TLSConfig
	f.DialTimeout, f.ReadTimeout, f.WriteTimeout, f.PoolTimeout = s.DialTimeout, s.ReadTimeout, s.WriteTimeout, s.PoolTimeout
	f.ContextTimeoutEnabled, f.MaxRetries, f.DialerRetries, f.DisableIdentity = true, s.MaxRetries, s.DialerRetries, true
	return f, nil
}
