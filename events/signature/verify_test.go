package signature

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	secret    = "0123456789abcdef0123456789abcdef"
	publicURL = "https://api.example.com/hooks/shop"
)

// sent is a request of an API. The signatures of this file were computed with Python and openssl, and those with another secret or time are in the
// documentation of the API.
type sent struct {
	name, preset, secret, query, contentType, body string
	header                                         string // "name: value" lines
	at                                             int64  // default: 1800000000
	want                                           string // "id type" of each event, or "handshake STATUS BODY"
}

var requests = []sent{
	{
		name: "standard", preset: "standard", secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", body: `{"type":"user.created"}`, want: "msg_1 user.created",
		header: "webhook-id: msg_1\nwebhook-timestamp: 1800000000\nwebhook-signature: v1,AAAA v2,i45K v1,i45KeRM28FVJg7Uz+SB4HcHxllSP0i+wOkjYj5GMvwo=",
	},
	{
		name: "standard, documented", preset: "standard", secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", at: 1614265330, body: `{"test": 2432232314}`, want: "msg_p5jXN8AQM9LWM0D4loKWxJek ",
		header: "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\nwebhook-timestamp: 1614265330\nwebhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	},
	{
		name: "stripe", preset: "stripe", body: `{"id":"evt_1","type":"invoice.paid"}`, want: "evt_1 invoice.paid",
		header: "Stripe-Signature: t=1800000000,v0=00,v1=00,v1=ed90be530abbccbc414e50e3bbc4e052e853acfd56887a92810885fceb968d63",
	},
	{
		name: "github", preset: "github", body: `{"action":"opened"}`, want: "d-1 issues.opened",
		header: "X-GitHub-Event: issues\nX-GitHub-Delivery: d-1\nX-Hub-Signature-256: sha256=f8591746c2912c5254a183d24c4de7b4819d3d85a08c8335e51ee448953c4d7d",
	},
	{
		name: "github form", preset: "github", contentType: "application/x-www-form-urlencoded", body: "payload=%7B%22action%22%3A%22opened%22%7D", want: "d-1 issues.opened",
		header: "X-GitHub-Event: issues\nX-GitHub-Delivery: d-1\nX-Hub-Signature-256: sha256=fbbf4293574d12881f383e8a50b0aa9cccd43c1fed077418ef6cb240cb55b379",
	},
	{
		name: "github ping", preset: "github", body: `{"action":"opened"}`, want: "handshake 200 ",
		header: "X-GitHub-Event: ping\nX-Hub-Signature-256: sha256=f8591746c2912c5254a183d24c4de7b4819d3d85a08c8335e51ee448953c4d7d",
	},
	{
		name: "shopify", preset: "shopify", body: `{"id":820982911946154508}`, want: "w-1 orders/create",
		header: "X-Shopify-Topic: orders/create\nX-Shopify-Webhook-Id: w-1\nX-Shopify-Hmac-SHA256: kyauR7z5PN9Fi5kJNx+tmte5DekaBCSeY7jm9KFrRrA=",
	},
	{
		name: "slack", preset: "slack", body: `{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention"}}`, want: "Ev1 app_mention",
		header: "X-Slack-Request-Timestamp: 1800000000\nX-Slack-Signature: v0=19046acbe4e20eb2097f7c3c44ed92b914185661ed78383c166dd01bda5006f9",
	},
	{
		name: "slack, documented", preset: "slack", secret: "8f742231b10e8888abcd99yyyzzz85a5", at: 1531420618, contentType: "application/x-www-form-urlencoded",
		want: "id ", header: "X-Slack-Request-Timestamp: 1531420618\nX-Slack-Signature: v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
		body: "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
	},
	{
		name: "slack challenge", preset: "slack", body: `{"type":"url_verification","challenge":"3eZbrw1a"}`, want: `handshake 200 {"challenge":"3eZbrw1a"}`,
		header: "X-Slack-Request-Timestamp: 1800000000\nX-Slack-Signature: v0=4b3f5c6a674da8ce7de0f8728ae4cb14ec1bfced305315b85398446166d0241e",
	},
	{
		name: "zoom", preset: "zoom", body: `{"event":"meeting.started","payload":{}}`, want: "id meeting.started",
		header: "x-zm-request-timestamp: 1800000000\nx-zm-signature: v0=cad2278e9d6969c07c452fce11b690312817da1dca3e20f04d7b7072f688129c",
	},
	{
		name: "zoom validation", preset: "zoom", body: `{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}`,
		want:   `handshake 200 {"encryptedToken":"c1e2d9c8d9a624043bc69abb8320c1bdb5509a8da365cfb8f2cb7f938e630026","plainToken":"qgg8vlvZRS6UYooatFL8Aw"}`,
		header: "x-zm-request-timestamp: 1800000000\nx-zm-signature: v0=602a82c9edabaff49590d46b5a30f9bc687d246b23ace291f1731b3041159eee",
	},
	{
		name: "square", preset: "square", body: `{"event_id":"6a8f","type":"payment.updated"}`, want: "6a8f payment.updated",
		header: "x-square-hmacsha256-signature: KuLCB5WpHLEM8+FECRf0mMjiqv6bMWLjGN9fTl07G6A=",
	},
	{
		name: "hubspot", preset: "hubspot", body: `[{"eventId":1,"subscriptionType":"contact.creation"},{"eventId":2,"subscriptionType":"contact.deletion"}]`,
		want:   "1 contact.creation, 2 contact.deletion",
		header: "X-HubSpot-Request-Timestamp: 1800000000000\nX-HubSpot-Signature-v3: 2Xu6aMeSNDPqYXRqkKokJEtvDcJNohf5K5ywzgEyFGg=",
	},
	{
		name: "discord", preset: "discord", secret: discordKey, body: `{"type":1,"event":{"type":"APPLICATION_AUTHORIZED"}}`, want: "id APPLICATION_AUTHORIZED",
		header: "X-Signature-Timestamp: 1800000000\nX-Signature-Ed25519: 7b7093e2427d5194840b832a21625c6e038afe250df5bd29d94d1bfb77098a701a51f4a8914684e056b1143ce2a89183c60babf81204dd84f397c86b0a08660b",
	},
	{
		name: "discord ping", preset: "discord", secret: discordKey, body: `{"type":0}`, want: "handshake 204 ",
		header: "X-Signature-Timestamp: 1800000000\nX-Signature-Ed25519: 5137d1d90eaf4d17be022464b309edf2d450a66c1fda01e5ccb4c4fe2346ca9a22f0482c40ef9182a107190304f908b09355f4e46b0875750b416541ac7f7303",
	},
	{
		name: "twilio form", preset: "twilio", contentType: "application/x-www-form-urlencoded", body: "CallSid=CA1&From=%2B15551234&Body=a+b", want: "t-1 ",
		header: "I-Twilio-Idempotency-Token: t-1\nX-Twilio-Signature: 26hx5Zn4atu+9jvnFSWQblfge24=",
	},
	{
		name: "twilio form, with the port", preset: "twilio", contentType: "application/x-www-form-urlencoded", body: "CallSid=CA1&From=%2B15551234&Body=a+b", want: "id ",
		header: "X-Twilio-Signature: 1DCjFqQpo1Wz3OEA4ntkUdvgrz4=",
	},
	{
		name: "twilio JSON", preset: "twilio", query: "bodySHA256=015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862", body: `{"a":1}`, want: "id ",
		header: "X-Twilio-Signature: d6ZbzKP6hkpqoOGKAFJgQcFH/PY=",
	},
}

const discordKey = "5347a8c594bc9e4f90fbd23912206796771746f1ee59706446a6aefd48a58856"

// request returns the request, and its time.
func (s *sent) request() (*Request, time.Time) {
	r := &Request{Method: http.MethodPost, Query: s.query, Header: make(http.Header), Body: []byte(s.body)}
	r.Header.Set("Content-Type", s.contentType)
	for line := range strings.Lines(s.header) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	at := s.at
	if at == 0 {
		at = 1800000000
	}
	return r, time.Unix(at, 0)
}

func (s *sent) verifier(t testing.TB, secrets ...string) *Verifier {
	t.Helper()
	scheme, ok := Preset(s.preset)
	if !ok {
		t.Fatalf("no preset %s", s.preset)
	}
	address := ""
	if scheme.NeedsURL() {
		address = publicURL
	}
	if s.secret == "" {
		s.secret = secret
	}
	v, err := New(scheme, address, append(secrets, s.secret)...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// contents returns what a request has, as sent.want says it.
func contents(v *Verifier, r *Request) string {
	messages, err := v.Read(r)
	if err != nil {
		return err.Error()
	}
	if status, body, ok := v.Handshake(r); ok {
		return fmt.Sprintf("handshake %d %s", status, body)
	}
	all := make([]string, len(messages))
	for i, m := range messages {
		if len(m.ID) == 2*32 {
			m.ID = "id" // a hash
		}
		all[i] = m.ID + " " + m.Type
	}
	return strings.Join(all, ", ")
}

func TestVerify_presets(t *testing.T) {
	tested := make(map[string]bool)
	for _, c := range requests {
		t.Run(c.name, func(t *testing.T) {
			tested[c.preset] = true
			v := c.verifier(t)
			r, at := c.request()
			if err := v.Verify(r, at); err != nil {
				t.Fatal(err)
			}
			if got := contents(v, r); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			other := strings.Repeat("0", len(c.secret)-1) + "1"
			if c.preset == "standard" {
				other = "whsec_" + strings.Repeat("AAAA", 8)
			}
			previous := c.verifier(t, other)
			for name, test := range map[string]struct {
				change func(*Request)
				want   error
			}{
				"old and new secret": {func(*Request) {}, nil},
				"another body":       {func(r *Request) { r.Body = append(r.Body, '1') }, ErrSignature},
				"another query":      {func(r *Request) { r.Query = "bodySHA256=00" }, map[bool]error{true: ErrSignature}[v.scheme.NeedsURL()]},
				"no signature":       {func(r *Request) { r.Header.Del(v.scheme.Header) }, ErrMissing},
				"two signatures":     {func(r *Request) { r.Header.Add(v.scheme.Header, "x") }, ErrSignature},
				"other signature": {func(r *Request) {
					for _, old := range "ABCDEFabcdef" {
						r.Header.Set(v.scheme.Header, strings.ReplaceAll(r.Header.Get(v.scheme.Header), string(old), "0"))
					}
					r.Header.Set(v.scheme.Header, strings.ReplaceAll(r.Header.Get(v.scheme.Header), "v1=", "v0="))
				}, ErrSignature},
				"long header": {func(r *Request) {
					r.Header.Set(v.scheme.Header, r.Header.Get(v.scheme.Header)+strings.Repeat(" ", maxHeader))
				}, ErrSignature},
			} {
				r, at := c.request()
				test.change(r)
				if err := previous.Verify(r, at); !errors.Is(err, test.want) {
					t.Errorf("%s: %v, want %v", name, err, test.want)
				}
			}
			for age, want := range map[time.Duration]error{299 * time.Second: nil, 301 * time.Second: ErrTime, -299 * time.Second: nil, -301 * time.Second: ErrTime} {
				r, at := c.request()
				if v.scheme.Timestamp == "" {
					want = nil
				}
				if err := v.Verify(r, at.Add(age)); !errors.Is(err, want) {
					t.Errorf("%s later: %v, want %v", age, err, want)
				}
			}
		})
	}
	for _, name := range Presets() {
		if !tested[name] {
			t.Errorf("no request of %s", name)
		}
	}
}

func TestVerify_own_schemes(t *testing.T) {
	scheme := Scheme{
		Header: "X-Sign", Coding: codingBase64, Signed: "{id}:{method}:{timestamp}:{body}", Timestamp: "X-Time", ID: "X-Id", Type: []string{"X-Kind", "/kind"},
		SecretCoding: codingHex, Tolerance: 60,
	}
	v, err := New(scheme, "", hex.EncodeToString([]byte(secret)))
	if err != nil {
		t.Fatal(err)
	}
	r := &Request{Method: "POST", Header: http.Header{"X-Time": {"1800000000"}, "X-Id": {"7"}, "X-Kind": {"order"}}, Body: []byte(` {"kind":"made"}`)}
	r.Header.Set("X-Sign", "arQWRCJkrVkPnZtMDAeSJYFAlKuVupp+8+RIzBKe6dE=")
	if err := v.Verify(r, time.Unix(1800000060, 0)); err != nil {
		t.Error(err)
	}
	if got := contents(v, r); got != "7 order.made" {
		t.Errorf("got %s", got)
	}
	if err := v.Verify(r, time.Unix(1800000061, 0)); !errors.Is(err, ErrTime) {
		t.Errorf("after the tolerance: %v", err)
	}
	for _, text := range []string{"", "x", "-1", "99999999999999999999", "1e9"} {
		r.Header.Set("X-Time", text)
		if err := v.Verify(r, at(1800000000)); !errors.Is(err, ErrTime) {
			t.Errorf("time %q: %v", text, err)
		}
	}
}

func at(seconds int64) time.Time { return time.Unix(seconds, 0) }

func TestNew_rejects(t *testing.T) {
	base := func(change func(*Scheme)) Scheme {
		s := Scheme{Header: "X-Sign"}
		change(&s)
		return s
	}
	preset := func(name string) Scheme {
		s, _ := Preset(name)
		return s
	}
	for want, c := range map[string]struct {
		scheme      Scheme
		url, secret string
	}{
		"header is missing":             {base(func(s *Scheme) { s.Header = "" }), "", secret},
		"algorithm":                     {base(func(s *Scheme) { s.Algorithm = "md5" }), "", secret},
		"coding":                        {base(func(s *Scheme) { s.Coding = "octal" }), "", secret},
		"unit":                          {base(func(s *Scheme) { s.Unit = "h" }), "", secret},
		"secret_coding":                 {base(func(s *Scheme) { s.SecretCoding = "rot13" }), "", secret},
		"must have {body}":              {base(func(s *Scheme) { s.Signed = "{url}" }), publicURL, secret},
		"may have":                      {base(func(s *Scheme) { s.Signed = "{body}{x}" }), "", secret},
		"a time that is not signed":     {base(func(s *Scheme) { s.Timestamp = "X-Time" }), "", secret},
		"need each other":               {base(func(s *Scheme) { s.Signed = "{timestamp}{body}" }), "", secret},
		"id must be a header":           {base(func(s *Scheme) { s.Signed, s.ID = "{id}{body}", "/id" }), "", secret},
		"negative":                      {base(func(s *Scheme) { s.Tolerance = -1 }), "", secret},
		"needs at least":                {base(func(*Scheme) {}), "", "short"},
		"not hex":                       {base(func(s *Scheme) { s.SecretCoding = codingHex }), "", "wxyz" + secret},
		"not whsec":                     {preset("standard"), "", "whsec_" + secret + "!"},
		"public key":                    {preset("discord"), "", "00" + secret},
		"public_url is missing":         {preset("square"), "", secret},
		"public_url has no effect":      {preset("stripe"), publicURL, secret},
		"public_url must have a scheme": {preset("twilio"), "api.example.com/hooks", secret},
	} {
		if _, err := New(c.scheme, c.url, c.secret); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), c.secret) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestRead_rejects(t *testing.T) {
	v := (&sent{preset: "stripe"}).verifier(t)
	for name, body := range map[string]string{
		"empty": "", "text": "hello", "two values": "{}{}", "a name twice": `{"id":1,"id":2}`, "many": "[" + strings.Repeat("1,", maxEvents) + "1]", "deep": strings.Repeat("[", 100_000),
	} {
		if messages, err := v.Read(&Request{Header: make(http.Header), Body: []byte(body)}); !errors.Is(err, ErrBody) {
			t.Errorf("%s: %d events, error %v", name, len(messages), err)
		}
	}
	long := strings.Repeat("x", maxID+1)
	for _, body := range []string{`{"id":"` + long + `"}`, `{"id":true}`, `{}`, `[]`, `[{"id":null}]`, `"text"`} {
		messages, err := v.Read(&Request{Header: make(http.Header), Body: []byte(body)})
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		for _, m := range messages {
			if len(m.ID) != 2*32 {
				t.Errorf("%.20s: the id is %q, want a hash", body, m.ID)
			}
		}
	}
}

func FuzzVerify(f *testing.F) {
	for i, c := range requests {
		r, _ := c.request()
		scheme, _ := Preset(c.preset)
		f.Add(i, r.Header.Get(scheme.Header), r.Header.Get(scheme.Timestamp), c.query, r.Body)
	}
	f.Fuzz(func(t *testing.T, i int, header, timestamp, query string, body []byte) {
		c := requests[uint(i)%uint(len(requests))]
		v := c.verifier(t)
		r, at := c.request()
		r.Header.Set(v.scheme.Header, header)
		r.Query, r.Body = query, body
		if v.scheme.Timestamp != "" && !strings.HasSuffix(v.scheme.Timestamp, "=") {
			r.Header.Set(v.scheme.Timestamp, timestamp)
		}
		if err := v.Verify(r, at); err == nil && c.contentType == "" && !slices.ContainsFunc(requests, func(s sent) bool { return s.body == string(body) }) {
			t.Errorf("a changed request is valid: %q %q", body, header)
		}
		if _, err := v.Read(r); err == nil {
			v.Handshake(r)
		}
	})
}
