package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // Twilio and older APIs sign with it
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Limits of what is read of a request.
const (
	maxHeader = 4 << 10 // bytes of the header with the signature
	maxItems  = 16      // of that header
	maxEvents = 100     // of an array
	maxID     = 256     // bytes; a longer ID is hashed
)

// Reasons to refuse a request.
var (
	ErrMissing   = errors.New("the request has no signature")
	ErrSignature = errors.New("the signature is wrong")
	ErrTime      = errors.New("the time of the signature is missing, or too far from the current time")
	ErrBody      = errors.New("the body is not JSON")
)

// A Request is a request of an API.
type Request struct {
	Method string
	Query  string // raw
	Header http.Header
	Body   []byte // raw until Read
}

// A Message is an event of a request.
type Message struct {
	ID, Type string
	Body     jsontext.Value
}

// A Verifier verifies requests. It is safe for concurrent use.
type Verifier struct {
	scheme Scheme
	keys   [][]byte
	url    string
}

// New returns a Verifier. A request may be signed with any of the secrets. PublicURL is the URL that the API has for the webhook, and "" if the scheme does
// not sign it. Errors contain no secrets.
func New(s Scheme, publicURL string, secrets ...string) (*Verifier, error) {
	s.setDefaults()
	if err := s.check(); err != nil {
		return nil, err
	}
	v := &Verifier{scheme: s, url: publicURL}
	for _, secret := range secrets {
		key, err := s.decodeSecret(secret)
		if err != nil {
			return nil, err
		}
		v.keys = append(v.keys, key)
	}
	u, err := url.Parse(publicURL)
	switch {
	case s.NeedsURL() && publicURL == "":
		return nil, errors.New("public_url is missing: the signature is over the URL that the API calls, which the gateway may see in another form")
	case !s.NeedsURL() && publicURL != "":
		return nil, errors.New("public_url has no effect, because the signature is not over the URL")
	case publicURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != ""):
		return nil, errors.New("public_url must have a scheme, a host and a path only, as in: https://api.example.com/hooks/shop")
	}
	return v, nil
}

// TypeAt returns where a request says the types of its events, see Scheme.Type.
func (v *Verifier) TypeAt() []string { return v.scheme.Type }

// Verify returns nil if a request has a valid signature that was made about now. Otherwise it returns ErrMissing, ErrSignature or ErrTime.
func (v *Verifier) Verify(r *Request, now time.Time) error {
	s := &v.scheme
	header := r.Header.Get(s.Header)
	if header == "" {
		return ErrMissing
	}
	if len(header) > maxHeader || len(r.Header.Values(s.Header)) > 1 {
		return ErrSignature
	}
	items := []string{header}
	if s.Separator != "" {
		items = strings.SplitN(header, s.Separator, maxItems)
	}
	timestamp := ""
	if s.Timestamp != "" {
		if timestamp = r.Header.Get(s.Timestamp); strings.HasSuffix(s.Timestamp, "=") {
			timestamp = value(items, s.Timestamp)
		}
		current, tolerance := now.Unix(), int64(s.Tolerance)
		if s.Unit == unitMilliseconds {
			current, tolerance = now.UnixMilli(), tolerance*1000
		}
		if at, err := strconv.ParseInt(timestamp, 10, 52); err != nil || at < current-tolerance || at > current+tolerance {
			return ErrTime
		}
	}
	for _, signed := range v.signed(r, timestamp) {
		for _, item := range items {
			encoded, ok := strings.CutPrefix(strings.TrimSpace(item), s.Prefix)
			given, err := decode(s.Coding, encoded)
			if ok && err == nil && slices.ContainsFunc(v.keys, func(key []byte) bool { return v.isValid(key, signed, given) }) {
				return nil
			}
		}
	}
	return ErrSignature
}

// value returns the rest of the first item with a prefix, or "".
func value(items []string, prefix string) string {
	for _, item := range items {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(item), prefix); ok {
			return rest
		}
	}
	return ""
}

func decode(coding, encoded string) ([]byte, error) {
	if coding == codingBase64 {
		return base64.StdEncoding.DecodeString(encoded)
	}
	return hex.DecodeString(encoded)
}

// isValid compares in constant time.
func (v *Verifier) isValid(key, signed, given []byte) bool {
	if v.scheme.Algorithm == Ed25519 {
		return len(given) == ed25519.SignatureSize && ed25519.Verify(key, signed, given)
	}
	return hmac.Equal(v.sum(key, signed), given)
}

func (v *Verifier) sum(key, signed []byte) []byte {
	create := func() hash.Hash { return sha256.New() }
	if v.scheme.Algorithm == algorithmSHA1 {
		create = sha1.New
	}
	h := hmac.New(create, key)
	_, _ = h.Write(signed)
	return h.Sum(nil)
}

// signed returns the bytes one of which must be signed.
func (v *Verifier) signed(r *Request, timestamp string) [][]byte {
	address := v.url
	if r.Query != "" {
		address += "?" + r.Query
	}
	if v.scheme.twilio {
		return v.signedByTwilio(r, address)
	}
	text := strings.NewReplacer("{body}", string(r.Body), "{timestamp}", timestamp, "{id}", r.Header.Get(v.scheme.ID),
		"{method}", r.Method, "{url}", address).Replace(v.scheme.Signed)
	return [][]byte{[]byte(text)}
}

// signedByTwilio returns the URL with and without the default port, each followed by the sorted fields of a form. The URL of another body has its hash.
func (v *Verifier) signedByTwilio(r *Request, address string) [][]byte {
	var fields strings.Builder
	query, _ := url.ParseQuery(r.Query)
	if sum := sha256.Sum256(r.Body); query.Has("bodySHA256") {
		if !hmac.Equal([]byte(query.Get("bodySHA256")), []byte(hex.EncodeToString(sum[:]))) {
			return nil
		}
	} else {
		form, err := url.ParseQuery(string(r.Body))
		if err != nil {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(form)) {
			for _, value := range slices.Compact(slices.Sorted(slices.Values(form[name]))) {
				fields.WriteString(name + value)
			}
		}
	}
	all := [][]byte{[]byte(address + fields.String())}
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	host, port := u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if u.Port() == "" || u.Port() == port {
		_, rest, _ := strings.Cut(address, u.Host)
		other := host + ":" + port
		if u.Port() != "" {
			other = host
		}
		all = append(all, []byte(u.Scheme+"://"+other+rest+fields.String()))
	}
	return all
}

// Read returns the events of a verified request: several if the body is an array. A form becomes a JSON object, or the JSON of its only
// field payload. The error is ErrBody.
func (v *Verifier) Read(r *Request) ([]Message, error) {
	if httpheader.MediaType(r.Header.Get("Content-Type")) == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(r.Body))
		if err != nil {
			return nil, ErrBody
		}
		members := make(map[string]any, len(form))
		for name, values := range form {
			if members[name] = values; len(values) == 1 {
				members[name] = values[0]
			}
		}
		if payload, _ := members["payload"].(string); len(members) == 1 && strictjson.Valid([]byte(payload)) { // GitHub sends its JSON so by default
			r.Body = []byte(payload)
		} else if r.Body, err = json.Marshal(members, json.Deterministic(true)); err != nil {
			return nil, ErrBody
		}
	}
	if strictjson.Check(r.Body) != nil {
		return nil, ErrBody
	}
	bodies := []jsontext.Value{bytes.TrimSpace(r.Body)}
	if bodies[0].Kind() == '[' {
		if err := json.Unmarshal(bodies[0], &bodies); err != nil || len(bodies) > maxEvents {
			return nil, ErrBody
		}
	}
	all := make([]Message, len(bodies))
	for i, body := range bodies {
		var parts []string
		for _, at := range v.scheme.Type {
			if part := valueAt(at, r.Header, body); part != "" {
				parts = append(parts, part)
			}
		}
		id := valueAt(v.scheme.ID, r.Header, body)
		if id == "" || len(id) > maxID || len(bodies) > 1 && v.scheme.ID[0] != '/' {
			sum := sha256.Sum256(body)
			id = hex.EncodeToString(sum[:])
		}
		all[i] = Message{ID: id, Type: strings.Join(parts, "."), Body: body}
	}
	return all, nil
}

// valueAt returns a text or the literal of a number of a body, or a header; "" if there is none.
func valueAt(at string, header http.Header, body jsontext.Value) string {
	pointer, ok := strings.CutPrefix(at, "/")
	if !ok {
		return header.Get(at)
	}
	for name := range strings.SplitSeq(pointer, "/") {
		body = strictjson.MemberOf(body, name)
	}
	if body.Kind() == '0' {
		return string(body)
	}
	return strictjson.Text(body)
}
