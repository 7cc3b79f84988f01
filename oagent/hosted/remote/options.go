package remote

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/oagent"
)

// Defaults and limits of a Client.
const (
	defaultTimeout = 5 * time.Minute // of a call

	maxResult = 1 << 20 // bytes of the state of an Engagement

	requestTimeout = 30 * time.Second // of one request; more than pollWait
	maxRedirects   = 3                // of a GET, on the same host
	maxHeader      = 64 << 10         // bytes of a response header
	maxConnections = 64               // to one host
	idleTimeout    = 90 * time.Second
)

// Host is a server whose agents may be called.
type Host struct {
	Name string // host name, with a port unless it is 443
	HostOptions
}

// HostOptions say how agents of a server are called.
type HostOptions struct {
	// Authorize adds the operator's credentials for this host to a request. Default: none.
	Authorize func(*http.Request) error `json:"-"`

	// Whether to send the caller's header Authorization to the servers, in place of the
	// operator's, for capabilities with the caller's identity. Default: false.
	ForwardCaller bool `json:"forward_caller,omitempty"`

	// Whether to connect to addresses that are not public: loopback, private networks, and those
	// that are reserved. Use it for servers of an intranet and for tests only. Default: false.
	AllowPrivateAddresses bool `json:"allow_private_addresses,omitempty"`

	// Timeout is how long a call may take, from the definition to the result. Default:
	// defaultTimeout.
	Timeout time.Duration `json:"-"`

	// Roots are the certificate authorities that the host's certificate may be from. Default:
	// those of the system.
	Roots *x509.CertPool `json:"-"`
}

// Options configures a Client.
type Options struct {
	Hosts []Host

	// Report is called with errors that an operator should see, and the reference of the agent.
	// They may contain addresses. It must return quickly. Default: none.
	Report func(reference string, err error)
}

// Client calls agents of other servers. It is safe for concurrent use.
type Client struct {
	report   func(string, error)
	hosts    map[string]*host
	firstGap time.Duration // between two polls of a server that does not wait

	mu          sync.Mutex
	definitions map[string]*cached // by reference
	refreshing  sync.WaitGroup
}

// host is a Host with its connections.
type host struct {
	Host
	transport *http.Transport
	fetcher   *fetch.Client
}

// New returns a Client. The caller must call Close.
func New(options Options) (*Client, error) {
	c := &Client{
		report: options.Report, firstGap: firstGap,
		hosts: make(map[string]*host, len(options.Hosts)), definitions: make(map[string]*cached),
	}
	if c.report == nil {
		c.report = func(string, error) {}
	}
	for _, h := range options.Hosts {
		name, err := NormalizeHost(h.Name)
		if err != nil {
			return nil, err
		}
		if c.hosts[name] != nil {
			return nil, fmt.Errorf("the host %s is given twice", name)
		}
		c.hosts[name] = newHost(h)
	}
	return c, nil
}

func newHost(h Host) *host {
	if h.Timeout <= 0 {
		h.Timeout = defaultTimeout
	}
	dialer := &net.Dialer{Timeout: requestTimeout}
	if !h.AllowPrivateAddresses {
		dialer.ControlContext = fetch.OnlyPublic
	}
	transport := &http.Transport{
		Proxy:                  nil, // a proxy would make the connection, and fetch.OnlyPublic could not check it
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: h.Roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		MaxConnsPerHost:        maxConnections,
		IdleConnTimeout:        idleTimeout,
		TLSHandshakeTimeout:    requestTimeout,
		MaxResponseHeaderBytes: maxHeader,
	}
	return &host{h, transport, fetch.New(fetch.Options{
		MaxSize: max(maxResult, oagent.MaxDocument), MaxRedirects: maxRedirects, SameHost: true,
		Timeout: requestTimeout, Transport: transport,
	})}
}

// NormalizeHost returns a host of the allow-list in lowercase and without the port 443.
func NormalizeHost(name string) (string, error) {
	name = strings.ToLower(name)
	reference, err := oagent.ParseReference(oagent.Scheme + name + "/agent")
	if err != nil || reference.Path != "" {
		return "", fmt.Errorf("%.64q is not a host: write a host name without a scheme and a path, as in agents.example.com", name)
	}
	return withoutPort(name), nil
}

func withoutPort(host string) string { return strings.TrimSuffix(host, ":443") }

// Check returns an error if agents of the reference's host must not be called.
func (c *Client) Check(reference oagent.Reference) error {
	_, err := c.host(reference)
	return err
}

func (c *Client) host(reference oagent.Reference) (*host, error) {
	if !reference.IsRemote() {
		return nil, fmt.Errorf("%s is not an agent of another server", reference)
	}
	if h := c.hosts[withoutPort(reference.Host)]; h != nil {
		return h, nil
	}
	return nil, fmt.Errorf("%s: agents of the server %s must not be called; the operator allows servers with remote_agents", reference, reference.Host)
}

// ForwardsCaller reports whether calls of the agent have the caller's own credentials.
func (c *Client) ForwardsCaller(reference oagent.Reference) bool {
	h, err := c.host(reference)
	return err == nil && h.ForwardCaller
}

// Close ends the fetching of definitions and closes idle connections.
func (c *Client) Close() {
	c.refreshing.Wait()
	for _, h := range c.hosts {
		h.transport.CloseIdleConnections()
	}
}

// address returns the URL of an agent, whose scheme is https.
func address(reference oagent.Reference) string {
	return "https://" + reference.String()[len(oagent.Scheme):]
}
