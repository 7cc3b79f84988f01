package authserver

import (
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/fairwayhq/fairway/internal/share"
	"github.com/fairwayhq/fairway/internal/text"
)

// Codes of failures (RFC 6749, sections 4.1.2.1 and 5.2).
const (
	codeRequest     = "invalid_request"
	codeClient      = "invalid_client"
	codeGrant       = "invalid_grant"
	codeTarget      = "invalid_target" // RFC 8707, section 2
	codeScope       = "invalid_scope"
	codeDenied      = "access_denied"
	codeServer      = "server_error"
	codeUnavailable = "temporarily_unavailable"
	codeType        = "unsupported_response_type"
	codeGrantType   = "unsupported_grant_type"
	codeNotAllowed  = "unauthorized_client"
)

// A failure is the reason why a request gets no token. It never contains secrets.
type failure struct {
	code        string
	description string // one sentence
}

func fail(code, description string) *failure { return &failure{code, description} }

// query returns the failure as the parameters of a redirect.
func (f *failure) query() url.Values {
	return url.Values{"error": {f.code}, "error_description": {f.description}}
}

func sentence(err error) string { return text.Sentence(err.Error()) }

// writeFailure reports the failure to a client.
func writeFailure(w http.ResponseWriter, f *failure) {
	status := http.StatusBadRequest
	switch f.code {
	case codeClient:
		status = http.StatusUnauthorized
		w.Header().Set("Www-Authenticate", `Basic realm="token"`)
	case codeServer:
		status = http.StatusInternalServerError
	case codeUnavailable:
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "60")
	}
	writeJSON(w, status, map[string]string{"error": f.code, "error_description": f.description})
}

// limits are the rates at which one network may cause work.
type limits struct {
	register *limiter // registrations
	fetch    *limiter // requests that may fetch a metadata document
}

// A limiter limits the events of each network to a number a minute.
type limiter struct {
	perMinute int

	mu       sync.Mutex
	networks map[share.Owner]*rate.Limiter
	emptied  time.Time
}

func newLimiter(perMinute int) *limiter {
	return &limiter{perMinute: perMinute, networks: make(map[share.Owner]*rate.Limiter)}
}

// maxNetworks limits how many networks a limiter knows. If there are more, the further ones share one rate until the minute has ended.
const maxNetworks = 10_000

// allow reports whether the network may cause one more event.
func (l *limiter) allow(network share.Owner) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.emptied) > time.Minute {
		clear(l.networks) // a limit is full again after a minute
		l.emptied = now
	}
	one := l.networks[network]
	if one == nil && len(l.networks) >= maxNetworks {
		network = ""
		one = l.networks[network]
	}
	if one == nil {
		one = rate.NewLimiter(rate.Every(time.Minute/time.Duration(l.perMinute)), l.perMinute)
		l.networks[network] = one
	}
	return one.Allow()
}
