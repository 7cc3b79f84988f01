package model

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// APIOptions configure a Model that calls an HTTP API.
type APIOptions struct {
	// The URL of the API without the path of the method, such as http://127.0.0.1:8000/v1.
	// Default: the API of the provider.
	BaseURL string `json:"base_url,omitempty"`

	// Key returns the API key. It is called for each request. nil means that the API needs none.
	Key func() (string, error) `json:"-"`

	// The name of the model. Required.
	Model string `json:"model,omitempty"`

	// Timeout limits the time until the response begins, and between two pieces of it. 0 means
	// defaultTimeout.
	Timeout time.Duration `json:"-"`

	// The maximum number of tokens that the model generates for one response. Default: 4096.
	MaxTokens int `json:"max_tokens,omitempty"`

	// CompletionTokens says that an OpenAI-compatible API gets the limit as max_completion_tokens, not as max_tokens. It
	// always does for the API of OpenAI. If the API rejects one, it gets the other.
	CompletionTokens bool `json:"-"`

	// How random the texts of the model are, from 0 to 2. Default: that of the API.
	Temperature *float64 `json:"temperature,omitempty"`

	// How much the model reasons before it responds: a value that the API accepts, such as low, medium or high. Default: that of the API.
	Effort string `json:"effort,omitempty"`

	// Authorize adds headers and query parameters to each request. Errors do not contain their values. Default: none.
	Authorize func(*http.Request) error `json:"-"`

	// The maximum size of a response of the API, in bytes. Default: 8 MiB.
	MaxResponse int64 `json:"max_response,omitempty"`

	// Transport sends the requests. nil means one that keeps connections.
	Transport http.RoundTripper `json:"-"`
}

// Defaults of APIOptions.
const (
	defaultTimeout     = 2 * time.Minute
	DefaultMaxTokens   = 4096
	defaultMaxResponse = 8 << 20 // bytes
)

// maxIdleConnections is how many connections to an API are kept open while no request uses them.
const maxIdleConnections = 64

// MaxCalls is the maximum number of tool calls in one response.
const MaxCalls = 128

// WithDefaults returns the options with defaults for what is not set, or an error if an option
// cannot be used. Errors do not contain credentials.
func (o APIOptions) WithDefaults(baseURL string) (APIOptions, error) {
	o.BaseURL = cmp.Or(o.BaseURL, baseURL)
	if err := CheckBaseURL(o.BaseURL); err != nil {
		return o, err
	}
	if o.Model == "" {
		return o, errors.New("the name of the model is missing")
	}
	for name, value := range map[string]int64{"timeout": int64(o.Timeout), "max_tokens": int64(o.MaxTokens), "max_response": o.MaxResponse} {
		if value < 0 {
			return o, fmt.Errorf("%s is negative", name)
		}
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.MaxTokens = cmp.Or(o.MaxTokens, DefaultMaxTokens)
	o.MaxResponse = cmp.Or(o.MaxResponse, defaultMaxResponse)
	if o.Transport == nil {
		o.Transport = NewTransport()
	}
	return o, nil
}

// CheckBaseURL returns an error if the URL cannot be the base URL of an API. The error does not
// repeat the URL, which may contain a password.
func CheckBaseURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("base_url is not a URL")
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return errors.New("base_url must begin with https:// or http:// and have a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("base_url must not have a user, a query or a fragment; give the key as api_key")
	}
	return nil
}

// NewTransport returns a transport for the Transport of APIOptions. Its user closes its idle
// connections.
func NewTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = maxIdleConnections
	return t
}
