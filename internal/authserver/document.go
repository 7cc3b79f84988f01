package authserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/oauth/verify"
)

// Limits of metadata documents.
const (
	maxDocument       = 5 << 10 // bytes
	maxKeySet         = 64 << 10
	documentWait      = 10 * time.Second
	documentLifetime  = 5 * time.Minute // if its server does not specify one
	maxDocumentTime   = 24 * time.Hour
	maxKnownDocuments = 1000
)

// documents fetches the metadata documents of clients (OAuth Client ID Metadata Document), and keeps them for as long as their servers allow.
type documents struct {
	fetch  *fetch.Client
	flight singleflight.Group

	mu    sync.Mutex
	known map[string]knownDocument // by client ID
}

type knownDocument struct {
	client *Client
	until  time.Time
}

func newDocuments(transport http.RoundTripper) *documents {
	if transport == nil {
		transport = publicTransport()
	}
	return &documents{
		// A redirect could lead to an address that the gateway has not checked, so none is followed.
		fetch: fetch.New(fetch.Options{MaxSize: maxKeySet, Timeout: documentWait, Transport: transport}),
		known: make(map[string]knownDocument),
	}
}

// publicTransport returns a transport that connects to public addresses only, so that a client cannot have the gateway send requests into
// its own network.
func publicTransport() http.RoundTripper {
	dialer := &net.Dialer{Timeout: documentWait, ControlContext: fetch.OnlyPublic}
	return &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: documentWait, MaxIdleConns: 10, IdleConnTimeout: time.Minute, DisableCompression: true}
}

// client returns the client whose ID is the URL of its metadata document.
func (d *documents) client(ctx context.Context, id string) (*Client, error) {
	d.mu.Lock()
	known, ok := d.known[id]
	d.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.client, nil
	}
	// The fetch goes on if the request that has started it ends: others may wait for it.
	result := d.flight.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*documentWait)
		defer cancel()
		return d.load(ctx, id)
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*Client), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// load fetches and checks a document.
func (d *documents) load(ctx context.Context, id string) (*Client, error) {
	u, err := url.Parse(id)
	if err != nil || len(id) > maxURI || u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Path == "" || u.Path == "/" || strings.Contains(u.EscapedPath(), "/.") {
		return nil, errors.New("the client ID is not an https URL with a path, and without user, fragment and dot segments")
	}
	body, lifetime, err := d.get(ctx, id, maxDocument)
	if err != nil {
		return nil, err
	}
	var document struct {
		ID           string          `json:"client_id"`
		Name         string          `json:"client_name"`
		RedirectURIs []string        `json:"redirect_uris"`
		Method       string          `json:"token_endpoint_auth_method"`
		Application  string          `json:"application_type"`
		Keys         json.RawMessage `json:"jwks"`
		KeysURL      string          `json:"jwks_uri"`
		Secret       any             `json:"client_secret"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, errors.New("it is not a JSON object with the members of RFC 7591")
	}
	switch {
	case document.ID != id:
		return nil, errors.New("its client_id is not its own URL")
	case document.Secret != nil || strings.HasPrefix(document.Method, "client_secret"):
		return nil, errors.New("it has a secret, although it is public")
	case len(document.RedirectURIs) == 0:
		return nil, errors.New("it has no redirect_uris")
	case document.Name != "" && visible(document.Name) == "":
		return nil, errors.New("its client_name has no visible character")
	case len(document.Name) > maxName:
		return nil, fmt.Errorf("its client_name has more than %d bytes", maxName)
	}
	if err := checkRedirects(document.RedirectURIs, document.Application, true); err != nil {
		return nil, err
	}
	c := &Client{ID: id, Name: document.Name, RedirectURIs: document.RedirectURIs, domain: u.Hostname()}
	if document.Method == authKey {
		if c.Keys, err = d.keysOf(ctx, document.Keys, document.KeysURL); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxKnownDocuments {
		clear(d.known) // rare; they are fetched again
	}
	d.known[id] = knownDocument{c, time.Now().Add(lifetime)}
	return c, nil
}

// keysOf returns the keys of a client that authenticates itself with a private key.
func (d *documents) keysOf(ctx context.Context, keys json.RawMessage, from string) (*jose.JSONWebKeySet, error) {
	if (keys == nil || string(keys) == "null") && strings.HasPrefix(from, "https://") {
		var err error
		if keys, _, err = d.get(ctx, from, maxKeySet); err != nil {
			return nil, err
		}
	}
	if keys == nil {
		return nil, errors.New("it has no keys, although the client authenticates itself with private_key_jwt")
	}
	return ReadKeys(keys)
}

// ReadKeys reads the JWK set of a client that authenticates itself with a private key.
func ReadKeys(content []byte) (*jose.JSONWebKeySet, error) {
	set := new(jose.JSONWebKeySet)
	if err := json.Unmarshal(verify.WithoutCertificates(content), set); err != nil || len(set.Keys) == 0 {
		return nil, errors.New("the keys of the client are not a JWK set with at least one key")
	}
	for _, key := range set.Keys {
		if !key.IsPublic() || !key.Valid() {
			return nil, errors.New("one of the keys of the client is a private key or not valid; only the public keys may be there")
		}
	}
	return set, nil
}

// get returns the document at an https URL, and how long it may be kept.
func (d *documents) get(ctx context.Context, from string, limit int) ([]byte, time.Duration, error) {
	response, err := d.fetch.Get(ctx, from, http.Header{"Accept": {"application/json"}})
	switch {
	case errors.Is(err, fetch.ErrTooLarge) || err == nil && len(response.Body) > limit:
		return nil, 0, fmt.Errorf("it is larger than %d bytes", limit)
	case err != nil:
		return nil, 0, errors.New("it cannot be fetched") // not the cause: it would tell about the network
	case response.Status != http.StatusOK:
		return nil, 0, fmt.Errorf("its server responds with status %d", response.Status)
	}
	return response.Body, lifetimeOf(response.Header), nil
}

// lifetimeOf returns how long a response may be kept.
func lifetimeOf(header http.Header) time.Duration {
	if age, known := httpheader.MaxAge(header); known {
		return min(age, maxDocumentTime)
	}
	return documentLifetime
}
