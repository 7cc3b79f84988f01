package models

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

const key = "sk-very-secret-0123456789"

// host is a module with a guest module, as the directive will have one.
type host struct {
	ModelRaw json.RawMessage `json:"model" caddy:"namespace=oagent.models inline_key=provider"`
}

// load loads a guest module from its JSON.
func load(t *testing.T, config string) (caddy.Context, model.Model, error) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	loaded, err := ctx.LoadModule(&host{ModelRaw: json.RawMessage(config)}, "ModelRaw")
	if err != nil {
		return ctx, nil, err
	}
	m, ok := loaded.(model.Model)
	if !ok {
		t.Fatalf("%T is no model.Model", loaded)
	}
	return ctx, m, nil
}

func question() *model.Request {
	return &model.Request{Messages: []model.Message{{Role: model.RoleUser, Text: "Where is train 7?"}}}
}

// serve starts a model API.
func serve(t *testing.T, steps ...modelserver.Step) (*modelserver.Server, string) {
	t.Helper()
	server := &modelserver.Server{Respond: modelserver.Sequence(steps...), Key: key}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	return server, listening.URL + "/v1"
}

// TestLoad loads each module from JSON and asks it.
func TestLoad(t *testing.T) {
	t.Setenv("TEST_MODEL_KEY", key)
	for _, provider := range []string{"openai", "openai_responses", "anthropic"} {
		server, baseURL := serve(t, modelserver.Step{Status: 529}, modelserver.Step{Text: "In Bern."})
		_, m, err := load(t, fmt.Sprintf(`{"provider":%q,"base_url":%q,"api_key":"{env.TEST_MODEL_KEY}","model":"m-%[1]s","max_tokens":7}`, provider, baseURL))
		if err != nil {
			t.Fatal(err)
		}
		response, err := m.Generate(t.Context(), question(), nil)
		if err != nil || response.Text != "In Bern." {
			t.Errorf("%s: got %+v and %v", provider, response, err)
		}
		if got := server.Requests(); len(got) != 2 || got[1].Model != "m-"+provider || got[1].MaxTokens != 7 {
			t.Errorf("%s: the server received %d requests", provider, len(got))
		}
	}
	script := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(script, []byte("conversations: [{steps: [{text: In Bern.}]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, m, err := load(t, fmt.Sprintf(`{"provider":"scripted","file":%q}`, script))
	if err != nil {
		t.Fatal(err)
	}
	if response, err := m.Generate(t.Context(), question(), nil); err != nil || !strings.HasSuffix(response.Text, "In Bern.") {
		t.Errorf("scripted: got %+v and %v", response, err)
	}
}

// TestLoad_key_file uses a changed key with the next request, and never shows it.
func TestLoad_key_file(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("sk-an-old-and-revoked-key")
	_, baseURL := serve(t, modelserver.Step{Text: "ok"})
	_, m, err := load(t, fmt.Sprintf(`{"provider":"openai","base_url":%q,"api_key":"{file.%s}","model":"m"}`, baseURL, file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), question(), nil); model.KindOf(err) != model.KindCredentials || strings.Contains(err.Error(), "revoked") {
		t.Errorf("with the old key: got %v", err)
	}
	write(key + "\n")
	if _, err := m.Generate(t.Context(), question(), nil); err != nil {
		t.Errorf("with the new key: %v", err)
	}
	write("")
	if _, err := m.Generate(t.Context(), question(), nil); model.KindOf(err) != model.KindCredentials {
		t.Errorf("without a key: got %v", err)
	}
}

// TestLoad_retries checks that 0 turns retries off.
func TestLoad_retries(t *testing.T) {
	server, baseURL := serve(t, modelserver.Step{Status: 500}, modelserver.Step{Text: "ok"})
	_, m, err := load(t, fmt.Sprintf(`{"provider":"openai","base_url":%q,"api_key":%q,"model":"m","retries":0}`, baseURL, key))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), question(), nil); model.KindOf(err) != model.KindUnavailable || len(server.Requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(server.Requests()))
	}
}

// TestLoad_fallback checks that the fallback responds while the model is unavailable, and that the log says once when that
// begins and ends, without the secrets.
func TestLoad_fallback(t *testing.T) {
	t.Setenv("TEST_MODEL_KEY", key)
	var down atomic.Bool
	down.Store(true)
	first, firstURL := serve(t)
	first.Respond = func(*modelserver.Request) modelserver.Step {
		if down.Load() {
			return modelserver.Step{Status: 503, Error: "overloaded " + key}
		}
		return modelserver.Step{Text: "first"}
	}
	second, secondURL := serve(t)
	second.Respond = func(*modelserver.Request) modelserver.Step { return modelserver.Step{Text: "second"} }
	core, logs := observer.New(zap.InfoLevel)
	name := fmt.Sprintf("first-%s", strings.TrimPrefix(firstURL, "http://")) // the metrics are those of the process
	config := fmt.Sprintf(`{"provider":"openai","base_url":%q,"model":%q,"retries":0,"max_fails":2,"fail_duration":50000000,
		"credentials":[{"in":"header","name":"X-Api-Key","value":"{env.TEST_MODEL_KEY}"}],
		"fallback":{"name":"anthropic","base_url":%q,"api_key":%q,"model":"other"}}`, firstURL, name, secondURL, key)
	ctx, m, err := load(t, config)
	if err != nil {
		t.Fatal(err)
	}
	m.(*OpenAI).logger = zap.New(core)
	paused := func() float64 { return gauge(t, ctx.GetMetricsRegistry(), "fairway_agent_models_paused", name) }
	for range 5 {
		if response, err := m.Generate(t.Context(), question(), nil); err != nil || response.Text != "second" || response.Model != "other" {
			t.Fatalf("got %+v and %v", response, err)
		}
	}
	if n := len(second.Requests()); n != 5 || paused() != 1 {
		t.Errorf("the fallback got %d requests, paused %v", n, paused())
	}
	down.Store(false)
	testkit.Eventually(t, "the first model again", func() bool {
		response, err := m.Generate(t.Context(), question(), nil)
		return err == nil && response.Text == "first" && response.Model == name
	})
	if paused() != 0 {
		t.Error("the model is still paused")
	}
	opened, closed := logs.FilterMessageSnippet("unavailable").Len(), logs.FilterMessageSnippet("available again").Len()
	if opened < 1 || opened != closed || logs.Len() != opened+closed {
		t.Errorf("logged %+v", logs.All())
	}
	if text := fmt.Sprint(logs.All()); strings.Contains(text, key) {
		t.Errorf("the log has the key: %s", text)
	}
}

// gauge returns the value of a gauge of a model.
func gauge(t *testing.T, registry prometheus.Gatherer, family, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			for _, pair := range metric.GetLabel() {
				if f.GetName() == family && pair.GetName() == labelModel && pair.GetValue() == name {
					return metric.GetGauge().GetValue()
				}
			}
		}
	}
	t.Fatalf("no metric %s of %s", family, name)
	return 0
}

func TestLoad_invalid(t *testing.T) {
	for config, words := range map[string]string{
		`{"provider":"openai"}`:                                                                       "model",
		`{"provider":"openai","model":"m","base_url":"ftp://x"}`:                                      "base_url",
		`{"provider":"openai","model":"m","base_url":"https://u:secret@x"}`:                           "base_url",
		`{"provider":"openai","model":"m","api_key":"{http.request.host}"}`:                           "api_key",
		`{"provider":"openai","model":"{env.NOT_SET_ANYWHERE}"}`:                                      "model",
		`{"provider":"openai","model":"m","retries":11}`:                                              "retries",
		`{"provider":"openai","model":"m","retries":-1}`:                                              "retries",
		`{"provider":"openai","model":"m","max_fails":-1}`:                                            "max_fails",
		`{"provider":"openai","model":"m","temperature":-1}`:                                          "temperature",
		`{"provider":"openai","model":"m","max_tokens":1,"max_completion_tokens":1}`:                  "max_completion_tokens",
		`{"provider":"openai","model":"m","fallback":{"name":"openai"}}`:                              "fallback model",
		`{"provider":"openai","model":"m","credentials":[{"in":"header","name":"Host","value":"a"}]}`: "Host",
		`{"provider":"anthropic","model":"m","max_tokens":-1}`:                                        "max_tokens",
		`{"provider":"anthropic","model":"m","timeout":-1}`:                                           "timeout",
		`{"provider":"anthropic","model":"m","unknown":1}`:                                            "unknown",
		`{"provider":"scripted"}`:                                                                     "file",
		`{"provider":"scripted","file":"/does/not/exist"}`:                                            "exist",
	} {
		_, _, err := load(t, config)
		if err == nil || !testkit.ContainsAll(err.Error(), words) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error with the words %q", config, err, words)
		}
	}
}

// TestWarn checks what is logged about keys, and that the key is not.
func TestWarn(t *testing.T) {
	t.Setenv("TEST_MODEL_KEY", key)
	for _, test := range []struct {
		api   API
		words string // of the only warning; "" for none
	}{
		{API{APIOptions: model.APIOptions{Model: "m"}, APIKey: key}, ""},
		{API{APIOptions: model.APIOptions{Model: "m", BaseURL: "http://127.0.0.1:8000/v1"}, APIKey: "{env.TEST_MODEL_KEY}"}, ""},
		{API{APIOptions: model.APIOptions{Model: "m", BaseURL: "http://[::1]:8000"}, APIKey: key}, ""},
		{API{APIOptions: model.APIOptions{Model: "m", BaseURL: "http://models.example.com"}}, ""},
		{API{APIOptions: model.APIOptions{Model: "m", BaseURL: "http://models.example.com"}, APIKey: key}, "unencrypted"},
		{API{APIOptions: model.APIOptions{Model: "m"}, APIKey: "{env.NOT_SET_ANYWHERE}"}, "value"},
		{API{APIOptions: model.APIOptions{Model: "m"}, APIKey: "short"}, "short"},
	} {
		core, logs := observer.New(zap.DebugLevel)
		o, err := test.api.options()
		if err == nil {
			o, err = o.WithDefaults("https://api.example.com")
		}
		if err != nil {
			t.Fatal(err)
		}
		test.api.warn(zap.New(core), o)
		var all strings.Builder
		for _, entry := range logs.All() {
			fmt.Fprintln(&all, entry.Message, entry.ContextMap())
		}
		if got := all.String(); (got == "") != (test.words == "") || !testkit.ContainsAll(got, test.words) || strings.Contains(got, key) {
			t.Errorf("%+v: logged %q, want %q", test.api, got, test.words)
		}
	}
}

// TestMetrics counts each request to the API by labels of the configuration.
func TestMetrics(t *testing.T) {
	_, baseURL := serve(t,
		modelserver.Step{Status: 429}, modelserver.Step{Text: "a", InputTokens: 100, OutputTokens: 20}, modelserver.Step{Text: "b", NoUsage: true},
	)
	// The collectors are those of the process, so the name of the model is new in each run.
	name := fmt.Sprintf("metered-%s", strings.TrimPrefix(baseURL, "http://"))
	ctx, m, err := load(t, fmt.Sprintf(`{"provider":"openai","base_url":%q,"api_key":%q,"model":%q}`, baseURL, key, name))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := m.Generate(t.Context(), question(), nil); err != nil {
			t.Fatal(err)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Generate(canceled, question(), nil); err == nil {
		t.Error("no error")
	}
	got := histograms(t, ctx.GetMetricsRegistry(), name)
	want := map[string]string{
		"gen_ai_client_operation_duration_seconds chat openai ":             "2",
		"gen_ai_client_operation_duration_seconds chat openai rate_limited": "1",
		"gen_ai_client_operation_duration_seconds chat openai canceled":     "1",
		"gen_ai_client_token_usage chat openai input":                       "1 of 100",
		"gen_ai_client_token_usage chat openai output":                      "1 of 20",
		"gen_ai_client_token_usage chat openai cached":                      "1 of 50",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// histograms returns the histograms of one model, by name and labels.
func histograms(t *testing.T, registry prometheus.Gatherer, name string) map[string]string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := make(map[string]string)
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if labels[labelModel] != name || len(labels) != 4 || family.GetType() != dto.MetricType_HISTOGRAM {
				continue
			}
			h := metric.GetHistogram()
			value := fmt.Sprint(h.GetSampleCount())
			if sum := h.GetSampleSum(); family.GetName() == "gen_ai_client_token_usage" {
				value += fmt.Sprint(" of ", math.Round(sum))
			}
			all[strings.Join([]string{family.GetName(), labels[labelOperation], labels[labelProvider], labels[labelTokenType] + labels[labelError]}, " ")] = value
		}
	}
	return all
}

// TestUnmarshalCaddyfile compares each block with its JSON.
func TestUnmarshalCaddyfile(t *testing.T) {
	for block, want := range map[string]string{
		`openai {
			base_url http://127.0.0.1:8000/v1
			api_key  {env.MODEL_KEY}
			model    gpt-x
		}`: `{"base_url":"http://127.0.0.1:8000/v1","model":"gpt-x","api_key":"{env.MODEL_KEY}"}`,
		`anthropic {
			base_url     {env.MODEL_URL}
			model        claude-x
			timeout      5m
			max_tokens   1000
			max_response 1MiB
			retries      0
		}`: `{"base_url":"{env.MODEL_URL}","model":"claude-x","max_tokens":1000,"max_response":1048576,"timeout":300000000000,"retries":0}`,
		`openai {
			model                 gpt-x
			max_completion_tokens 900
			temperature           0.2
			effort                low
			header_up             Api-Key {env.MODEL_KEY}
			credential            query api-version 2024-10-21
			max_fails             3
			fail_duration         1m
			fallback anthropic {
				model claude-x
				fallback openai {
					model small
				}
			}
		}`: `{"model":"gpt-x","temperature":0.2,"effort":"low","max_fails":3,"fail_duration":60000000000,` +
			`"fallback":{"fallback":{"model":"small","name":"openai"},"model":"claude-x","name":"anthropic"},` +
			`"credentials":[{"in":"header","name":"Api-Key","value":"{env.MODEL_KEY}"},{"in":"query","name":"api-version","value":"2024-10-21"}],` +
			`"max_completion_tokens":900}`,
		"scripted {\nfile script.yaml\n}": `{"file":"script.yaml"}`,
	} {
		got, err := unmarshal(t, block)
		if err != nil || got != want {
			t.Errorf("%s\n got %s and %v\nwant %s", block, got, err, want)
		}
	}
	for block, words := range map[string]string{
		`openai`:                                             "model",
		"openai gpt-x {\nmodel m\n}":                         "argument",
		"openai {\nmodel\n}":                                 "argument",
		"openai {\nmodel m\nmodel n\n}":                      "model twice",
		"openai {\nmodel m\nbase_uri http://x\n}":            "base_uri base_url",
		"openai {\nmodel m\nbase_url ftp://x\n}":             "base_url",
		"openai {\nmodel m\nretries 11\n}":                   "retries",
		"openai {\nmodel m\nretries x\n}":                    "retries",
		"openai {\nmodel m\ntimeout off\n}":                  "timeout",
		"openai {\nmodel m\ntemperature 3\n}":                "temperature 2",
		"openai {\nmodel m\ntemperature NaN\n}":              "temperature",
		"openai {\nmodel m\nmax_fails 0\n}":                  "max_fails",
		"openai {\nmodel m\nfallback x {\n}\n}":              "fallback x openai",
		"openai {\nmodel m\nheader_up Host a\n}":             "Host",
		"anthropic {\nmodel m\nmax_completion_tokens 9\n}":   "max_completion_tokens",
		"openai {\nmodel m\nheader_up A b\nheader_up A c\n}": "twice",
		"anthropic {\nmodel m\nmax_tokens 0\n}":              "max_tokens",
		"anthropic {\nmodel m\nmax_response -1\n}":           "max_response",
		"scripted":               "file",
		"scripted a":             "argument",
		"scripted {\nfiles b\n}": "file",
	} {
		if got, err := unmarshal(t, block); err == nil || !testkit.ContainsAll(err.Error(), words) {
			t.Errorf("%q: got %s and %v, want an error with the words %q", block, got, err, words)
		}
	}
}

// unmarshal returns the JSON of a block, as the directive will read it.
func unmarshal(t *testing.T, block string) (string, error) {
	t.Helper()
	d := caddyfile.NewTestDispenser(block)
	d.Next()
	name := d.Val()
	read, err := caddyfile.UnmarshalModule(d, "oagent.models."+name)
	if err != nil {
		return "", err
	}
	encoded, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded), nil
}
