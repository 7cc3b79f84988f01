package mcpadapter

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// said is a call with these members of _meta, and the request that came of it.
func said(t *testing.T, server *Server, v protocol.Revision, method, params, meta string) (http.Header, map[string]any) {
	t.Helper()
	r := shelved(t, server, v, method, params)
	if v.Stateless() {
		r.body = strings.Replace(r.body, `"_meta":{`, `"_meta":{`+meta+",", 1)
	} else {
		r.body = strings.Replace(r.body, `"params":{`, `"params":{"_meta":{`+meta+"},", 1)
	}
	var sent http.Header
	r.caller = through(r.tools, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header
		stationsAPI(w, r)
	})
	a := parse(t, r.Send(t))
	var result struct {
		Meta map[string]any `json:"_meta"`
	}
	if err := json.Unmarshal(a.Result, &result); err != nil {
		t.Fatal(err)
	}
	validate(t, v, "", []byte(`{"jsonrpc":"2.0","id":7,"result":`+string(a.Result)+`}`))
	return sent, result.Meta
}

func TestLocale_goes_to_the_API_and_comes_back(t *testing.T) {
	server := stocked(t, Options{})
	for _, v := range revisions {
		for method, params := range map[string]string{
			"tools/call":     `"name":"get_board"`,
			"prompts/get":    `"name":"greeting","arguments":{"who":"x"}`,
			"resources/read": `"uri":"notice://today"`,
		} {
			t.Run(v.String()+" "+method, func(t *testing.T) {
				for meta, want := range map[string]string{
					`"openai/locale":"de-CH"`:                      "de",
					`"webplus/i18n":"pt-br"`:                       "pt-BR",
					`"openai/locale":"fr","webplus/i18n":"pt-br"`:  "en",
					`"openai/locale":7`:                            "",
					`"openai/userAgent":"x"`:                       "",
					`"openai/locale":""`:                           "",
					`"openai/locale":"de\r\nAuthorization: admin"`: "en",
				} {
					sent, result := said(t, server, v, method, params, meta)
					if got := sent.Get("Accept-Language"); got != want {
						t.Errorf("%s: the API got the locale %q, want %q", meta, got, want)
					}
					if got, _ := result["openai/locale"].(string); got != want {
						t.Errorf("%s: got %q, want %q", meta, got, want)
					}
				}
			})
		}
	}
}

func TestInitialize_returns_the_locale(t *testing.T) {
	r := shelved(t, stocked(t, Options{}), protocol.V20251125, "initialize",
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"},"_meta":{"openai/locale":"de-DE"}`)
	var got struct {
		Meta map[string]string `json:"_meta"`
	}
	if r.result(t, "InitializeResult", &got); got.Meta["openai/locale"] != "de" {
		t.Errorf("got %v", got.Meta)
	}
}

func TestHints_are_bounded(t *testing.T) {
	server := stocked(t, Options{})
	long := strings.Repeat("a", 2000)
	for meta, want := range map[string][2]string{
		`"openai/userAgent":"ChatGPT/1.0"`:                            {"ChatGPT/1.0", ""},
		`"openai/userAgent":"a\r\nX-Admin: 1\u0000ü"`:                 {"aX-Admin: 1", ""},
		`"openai/userAgent":"` + long + `"`:                           {long[:256], ""},
		`"openai/userAgent":{"a":1}`:                                  {"", ""},
		`"openai/userLocation":"Berlin"`:                              {"", ""},
		`"openai/userLocation":{}`:                                    {"", ""},
		`"openai/userLocation":{"country":"DE","city":"Köln 🚂\r\n"}`:  {"", `{"city":"K\u00f6ln \ud83d\ude82\r\n","country":"DE"}`},
		`"openai/userLocation":{"latitude":37.7,"admin":true}`:        {"", `{"latitude":37.7}`},
		`"openai/userLocation":{"latitude":"37.7","city":7}`:          {"", ""},
		`"openai/userLocation":{"city":"` + long + `","country":"x"}`: {"", `{"country":"x"}`},
	} {
		sent, _ := said(t, server, protocol.V20251125, "tools/call", `"name":"get_board"`, meta)
		if got := [2]string{sent.Get("X-Client"), sent.Get("X-Place")}; got != want {
			t.Errorf("%s: sent %q, want %q", text.Cut(meta, text.MaxQuoted), got, want)
		}
	}
}

// A header that is for hints carries them alone: a client that writes it itself
// would pass by what cleans them.
func TestHint_headers_are_not_the_clients(t *testing.T) {
	for _, meta := range []string{"", `"openai/userAgent":"\r\n"`} {
		r := shelved(t, stocked(t, Options{}), protocol.V20251125, "tools/call", `"name":"get_board","_meta":{`+meta+`}`)
		var given http.Header
		r.caller = callerFunc(func(ctx context.Context, _ string, _ []byte) tools.Outcome {
			upstream := httptest.NewRequest(http.MethodGet, "/board", nil)
			upstream.Header = http.Header{"X-Client": {"\u0001"}, "X-Place": {"{"}, "X-Other": {"other"}}
			security.SupplementFromContext(ctx).Apply(upstream)
			given = upstream.Header
			return answered(http.StatusOK, "text/plain", "ok")
		})
		r.result(t, "CallToolResult", new(any))
		if given.Get("X-Client") != "" || given.Get("X-Place") != "" || given.Get("X-Other") != "other" {
			t.Errorf("with %q: sent %q", meta, given)
		}
	}
}

func TestHints_stay_where_nothing_is_configured(t *testing.T) {
	sent, result := said(t, New(Options{}), protocol.V20251125, "tools/call", `"name":"get_board"`,
		`"openai/locale":"de","openai/userAgent":"x","openai/userLocation":{"city":"x"}`)
	if len(sent) != 1 || sent.Get("Accept") == "" || len(result) != 0 {
		t.Errorf("sent %v, got %v", sent, result)
	}
}
