package detect_test

import (
	"context"
	"encoding/base64"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/inspect/detect"
)

// Planted values. They are joined here so that no scanner takes this file for a leak.
var (
	awsKey    = "AKIA" + "QYLPMN5HHHFPZAM2"
	githubKey = "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO0pINUx"
	slackKey  = "xoxb-" + "263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1"
	pem       = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA2Z3qX2BT\n-----END RSA " + "PRIVATE KEY-----"
	card      = "4111 1111 1111 1111"
	iban      = "DE89 3704 0044 0532 0130 00"
	email     = "ada.lovelace@example.com"
)

func chainOf(t *testing.T, reject bool, patterns ...detect.Pattern) inspect.Chain {
	t.Helper()
	pii, err := detect.PII(nil, patterns)
	if err != nil {
		t.Fatal(err)
	}
	phases := inspect.Phases[:]
	return inspect.Chain{
		{Name: "secrets", Inspector: detect.Detect(detect.Secrets(), reject), Phases: phases},
		{Name: "pii", Inspector: detect.Detect(pii, reject), Phases: phases},
	}
}

// mask returns a body with everything masked.
func mask(t *testing.T, body string, isJSON bool) (masked string, labels []string) {
	t.Helper()
	passed, labels, err := chainOf(t, false).Inspect(t.Context(), inspect.Message{Phase: inspect.Result, Body: []byte(body), JSON: isJSON})
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return string(passed), labels
}

func TestDetect_masks(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("write to " + email + " soon"))
	for name, c := range map[string]struct{ body, want string }{
		"a whole string stays an address":     {`{"a":"` + email + `"}`, `{"a":"masked@email.invalid"}`},
		"a part of a string":                  {`{"a":"mail ` + email + `!"}`, `{"a":"mail [email]!"}`},
		"several in a string":                 {`["` + email + ` and ` + card + `"]`, `["[email] and [card]"]`},
		"escapes":                             {`{"a":"ada\u0040example.com"}`, `{"a":"masked@email.invalid"}`},
		"an escaped slash before":             {`{"a":"\\\\ada@example.com\""}`, `{"a":"\\\\[email]\""}`},
		"percent encoding":                    {`["https://x.test/?m=ada%40example.com&n=1"]`, `["https://x.test/?m=[email]\u0026n=1"]`},
		"names of members":                    {`{"` + email + `":1,"bob@example.com":2}`, `{"[email]":1,"[email] (2)":2}`},
		"a number":                            {`{"card":4111111111111111,"n":12}`, `{"card":0,"n":12}`},
		"JSON in a string":                    {`{"text":"{\"mail\":\"` + email + `\",\"n\": 1}"}`, `{"text":"{\"mail\":\"masked@email.invalid\",\"n\": 1}"}`},
		"escapes of JSON in a string":         {`{"text":"{\"mail\":\"ada\\u0040example.com\"}"}`, `{"text":"{\"mail\":\"masked@email.invalid\"}"}`},
		"base64 is encoded again":             {`["` + encoded + `"]`, `["` + base64.StdEncoding.EncodeToString([]byte("write to [email] soon")) + `"]`},
		"white space and numbers stay":        {"{ \"n\" : 1.50e3 ,\n \"m\":\"" + email + "\" }", "{ \"n\" : 1.50e3 ,\n \"m\":\"masked@email.invalid\" }"},
		"lines of JSON":                       {"{\"m\":\"" + email + "\"}\n{\"m\":\"ada\\u0040example.com\"}", "{\"m\":\"masked@email.invalid\"}\n{\"m\":\"masked@email.invalid\"}"},
		"an AWS key":                          {`["id ` + awsKey + `."]`, `["id [aws-access-key]."]`},
		"a GitHub token":                      {`["` + githubKey + `"]`, `["[github-token]"]`},
		"a Slack token":                       {`["` + slackKey + `"]`, `["[slack-token]"]`},
		"a private key with escaped lines":    {`{"k":"` + strings.ReplaceAll(pem, "\n", `\n`) + `"}`, `{"k":"[private-key]"}`},
		"a password in a URL":                 {`["postgres://app:s3cr3tpw@db/x"]`, `["postgres://app:[url-password]@db/x"]`},
		"a member named password":             {`{"db_password":"hT7!kq92Lm","password":""}`, `{"db_password":"[secret]","password":""}`},
		"an assignment":                       {`["API_KEY=9f8Qk2LmZx7Vb3Nc5Rt1"]`, `["API_KEY=[secret]"]`},
		"an IBAN":                             {`["to ` + iban + ` please"]`, `["to [iban] please"]`},
		"an IBAN in one word":                 {`["GB82WEST12345698765432"]`, `["[iban]"]`},
		"a card before a date":                {`["` + card + ` 12/27"]`, `["[card] 12/27"]`},
		"telephone numbers":                   {`["+49 30 1234567","(212) 555-0123","030 1234567"]`, `["[phone]","[phone]","[phone]"]`},
		"a member named phone":                {`{"mobile":"1701234567","phone":491701234567}`, `{"mobile":"[phone]","phone":0}`},
		"a social security number":            {`["123-45-6789"]`, `["[ssn]"]`},
		"a list keeps the name of its member": {`{"phones":["1701234567"],"ids":["1701234567"]}`, `{"phones":["[phone]"],"ids":["1701234567"]}`},
	} {
		got, labels := mask(t, c.body, true)
		if got != c.want && unescaped(got) != unescaped(c.want) || len(labels) == 0 {
			t.Errorf("%s:\n got %s %v\nwant %s", name, got, labels, c.want)
		}
		if strictjson.Valid([]byte(c.body)) && !strictjson.Valid([]byte(got)) {
			t.Errorf("%s: %s is not valid JSON", name, got)
		}
		if again, _ := mask(t, got, true); unescaped(again) != unescaped(got) {
			t.Errorf("%s: masking the result again changes it to %s", name, again)
		}
	}
}

func unescaped(s string) string { return strings.ReplaceAll(s, `\u0026`, "&") }

func TestDetect_leaves_unchanged(t *testing.T) {
	cursor := base64.RawURLEncoding.EncodeToString([]byte(`{"after":"` + email + `"}`))
	for name, body := range map[string]string{
		"numbers":            `{"id":4111111111111112,"time":1764187569123,"price":19.99,"lat":52.520008,"n":1234567890123456}`,
		"dates":              `["2026-11-26","2026-11-26T19:46:08Z","26.11.2026","10:30-12:45"]`,
		"UUIDs":              `["550e8400-e29b-41d4-a716-446655440000"]`,
		"digests":            `["e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]`,
		"versions":           `["1.2.3-beta.4","192.168.100.200","v10.11.12"]`,
		"an at sign":         `["@home","a@b","3@4.5"]`,
		"words":              `["the secret: a token of thanks","task-management","pypi-style names, sk-learn"]`,
		"a cursor":           `{"nextCursor":"` + cursor + `","next_page_token":"` + cursor + `","requestState":"` + cursor + `"}`,
		"placeholders":       `{"password":"********","api_key":"{env.KEY}"}`,
		"a wrong IBAN":       `["DE89370400440532013001"]`,
		"wrong, in groups":   `["DE89 3704 0044 0532 0130 01, NL91 ABNA 0417 1643 01"]`,
		"not JSON, no value": `{"broken`,
		"an ISBN":            `["978-3-16-148410-0"]`,
	} {
		if got, labels := mask(t, body, true); got != body {
			t.Errorf("%s: %s became %s %v", name, body, got, labels)
		}
	}
}

func TestDetect_masks_the_same_in_text_and_structured_content(t *testing.T) {
	value := `{"mail":"` + email + `","note":"card ` + card + `","phone":491701234567}`
	text := string(strictjson.AppendString(nil, value))
	got, _ := mask(t, `{"content":[{"type":"text","text":`+text+`}],"structuredContent":`+value+`}`, true)
	structured := strictjson.MemberOf([]byte(got), "structuredContent")
	if want := string(strictjson.AppendString(nil, string(structured))); !strings.Contains(got, want) || strings.Contains(got, "ada") {
		t.Errorf("the text differs from structuredContent %s: %s", structured, got)
	}
}

func TestDetect_masks_text(t *testing.T) {
	got, _ := mask(t, "From: "+email+"\nKey: "+awsKey+"\n", false)
	if want := "From: [email]\nKey: [aws-access-key]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, _ := mask(t, "latin \xe9 "+email, true); got != "latin \xe9 [email]" {
		t.Errorf("invalid UTF-8: %q", got)
	}
}

func TestChain_rejects(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		label string
	}{
		"a hit":     {`{"to":"` + email + `"}`, "email"},
		"too large": {`["` + strings.Repeat("x", inspect.MaxBody) + `"]`, ""},
	} {
		_, _, err := chainOf(t, true).Inspect(t.Context(), inspect.Message{Phase: inspect.Arguments, Body: []byte(c.body), JSON: true})
		rejection, ok := errors.AsType[*inspect.RejectedError](err)
		if !ok || c.label != "" && !slices.Contains(rejection.Labels, c.label) || strings.Contains(err.Error(), "ada") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPII_finds_patterns_and_chosen_entities_only(t *testing.T) {
	own := detect.Pattern{Label: "customer", Expression: regexp.MustCompile(`C-\d{8}`)}
	detector, err := detect.PII([]string{detect.Card}, []detect.Pattern{own})
	if err != nil {
		t.Fatal(err)
	}
	m := inspect.Message{Phase: inspect.Result, JSON: true, Body: []byte(`["C-12345678 pays with ` + card + `, ` + email + `"]`)}
	verdict, err := detect.Detect(detector, false).Inspect(t.Context(), &m)
	if want := `["[customer] pays with [card], ` + email + `"]`; err != nil || string(verdict.Body) != want {
		t.Errorf("got %s, %v; want %s", verdict.Body, err, want)
	}
	if _, err := detect.PII([]string{"shoe"}, nil); err == nil {
		t.Error("an unknown entity was accepted")
	}
	if _, err := detect.PII(nil, []detect.Pattern{{Label: "all", Expression: regexp.MustCompile(`x*`)}}); err == nil {
		t.Error("a pattern that matches the empty text was accepted")
	}
}

func FuzzDetect(f *testing.F) {
	for _, seed := range []string{
		`{"a":"` + email + `"}`, `["\u0040\\"]`, `{"` + awsKey + `":4111111111111111}`, "ab12 DE89", `"x`, pem, "{\"a\":\"ada@exa\"}\n{\"a\":\"mple.com\"}",
		"4111\u00a01111&nbsp;1111\u200b1111", "ZGVhciBhZGEubG92ZWxhY2VAZXhhbXBs\nZS5jb20gaGVsbG8gYWdhaW4K",
	} {
		f.Add(seed)
	}
	pii, _ := detect.PII(nil, nil)
	chain := inspect.Chain{
		{Inspector: detect.Detect(detect.Secrets(), false), Phases: inspect.Phases[:]}, {Inspector: detect.Detect(pii, false), Phases: inspect.Phases[:]},
	}
	f.Fuzz(func(t *testing.T, body string) {
		for n := range 4 {
			isJSON := n%2 == 0
			passed, _, err := chain.Inspect(context.Background(), inspect.Message{Phase: inspect.Result, Body: []byte(body), JSON: isJSON, Text: true, Events: n > 1})
			if err == nil && isJSON && strictjson.Valid([]byte(body)) && !strictjson.Valid(passed) {
				t.Errorf("%q became %q, which is not valid", body, passed)
			}
		}
	})
}
