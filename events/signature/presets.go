package signature

import (
	"encoding/hex"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Presets returns the names of the presets in alphabetical order.
func Presets() []string { return slices.Sorted(maps.Keys(presets())) }

// Preset returns the scheme of an API.
func Preset(name string) (s Scheme, ok bool) {
	s, ok = presets()[name]
	return s, ok
}

func presets() map[string]Scheme {
	return map[string]Scheme{
		"standard": {
			Header: "Webhook-Signature", Separator: " ", Prefix: "v1,", Coding: codingBase64, Signed: "{id}.{timestamp}.{body}",
			Timestamp: "Webhook-Timestamp", ID: "Webhook-Id", SecretCoding: codingWhsec,
		},
		"stripe": {Header: "Stripe-Signature", Separator: ",", Prefix: "v1=", Signed: "{timestamp}.{body}", Timestamp: "t=", ID: "/id"},
		"github": {
			Header: "X-Hub-Signature-256", Prefix: "sha256=", ID: "X-Github-Delivery", Type: []string{"X-Github-Event", "/action"},
			handshake: handshake{"X-Github-Event", "ping", answerEmpty},
		},
		"shopify": {Header: "X-Shopify-Hmac-Sha256", Coding: codingBase64, ID: "X-Shopify-Webhook-Id", Type: []string{"X-Shopify-Topic"}},
		"slack": {
			Header: "X-Slack-Signature", Prefix: "v0=", Signed: "v0:{timestamp}:{body}", Timestamp: "X-Slack-Request-Timestamp", ID: "/event_id",
			Type: []string{"/event/type"}, handshake: handshake{"/type", "url_verification", answerChallenge},
		},
		"zoom": {
			Header: "X-Zm-Signature", Prefix: "v0=", Signed: "v0:{timestamp}:{body}", Timestamp: "X-Zm-Request-Timestamp", Type: []string{"/event"},
			handshake: handshake{"/event", "endpoint.url_validation", answerToken},
		},
		"square": {Header: "X-Square-Hmacsha256-Signature", Coding: codingBase64, Signed: "{url}{body}", ID: "/event_id"},
		"hubspot": {
			Header: "X-Hubspot-Signature-V3", Coding: codingBase64, Signed: "{method}{url}{body}{timestamp}", Timestamp: "X-Hubspot-Request-Timestamp",
			Unit: unitMilliseconds, ID: "/eventId", Type: []string{"/subscriptionType"},
		},
		"discord": {
			Algorithm: Ed25519, Header: "X-Signature-Ed25519", Signed: "{timestamp}{body}", Timestamp: "X-Signature-Timestamp",
			Type: []string{"/event/type"}, handshake: handshake{"/type", "0", answerNoContent},
		},
		"twilio": {Algorithm: algorithmSHA1, Header: "X-Twilio-Signature", Coding: codingBase64, ID: "I-Twilio-Idempotency-Token", twilio: true},
	}
}

// An answer is the kind of the response to a handshake.
type answer int

const (
	answerEmpty     answer = iota // 200
	answerNoContent               // 204
	answerChallenge               // the member challenge of the body
	answerToken                   // payload.plainToken of the body, and its HMAC
)

// Handshake returns the response to a verified request, if it only checks the receiver.
func (v *Verifier) Handshake(r *Request) (status int, body []byte, ok bool) {
	h := v.scheme.handshake
	if h.at == "" || valueAt(h.at, r.Header, r.Body) != h.value {
		return 0, nil, false
	}
	switch h.answer {
	case answerNoContent:
		return http.StatusNoContent, nil, true
	case answerChallenge:
		body, _ = json.Marshal(map[string]jsontext.Value{"challenge": strictjson.MemberOf(r.Body, "challenge")})
	case answerToken:
		plain := valueAt("/payload/plainToken", nil, r.Body)
		body, _ = json.Marshal(map[string]string{"plainToken": plain, "encryptedToken": hex.EncodeToString(v.sum(v.keys[0], []byte(plain)))}, json.Deterministic(true))
	}
	return http.StatusOK, body, true
}
