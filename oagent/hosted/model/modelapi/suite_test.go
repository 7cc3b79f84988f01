package modelapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/model/modelapi"
)

// key is the API key. No error may contain it.
const key = "sk-very-secret-0123456789"

// maxResponse is the limit of responses in these tests, in bytes.
const maxResponse = 256 << 10

// subject is the format under test.
type subject struct {
	create func(model.APIOptions) (model.Model, error)

	// rawArguments reports that the format without streaming carries arguments that are not JSON.
	rawArguments bool

	// stops are the reasons of the wire format to stop.
	stops map[string]model.Stop
}

func TestOpenAI(t *testing.T) {
	runSuite(t, subject{
		create:       func(o model.APIOptions) (model.Model, error) { return modelapi.NewOpenAI(o) },
		rawArguments: true,
		stops: map[string]model.Stop{
			"stop": model.StopEnd, "length": model.StopLength, "content_filter": model.StopRefused,
			"tool_calls": model.StopEnd, // without calls
			"new_reason": model.StopEnd,
		},
	})
}

func TestResponses(t *testing.T) {
	runSuite(t, subject{
		create:       func(o model.APIOptions) (model.Model, error) { return modelapi.NewResponses(o) },
		rawArguments: true,
		stops: map[string]model.Stop{
			"": model.StopEnd, "max_output_tokens": model.StopLength, "content_filter": model.StopRefused, "refusal": model.StopRefused,
		},
	})
}

func TestAnthropic(t *testing.T) {
	runSuite(t, subject{
		create: func(o model.APIOptions) (model.Model, error) { return modelapi.NewAnthropic(o) },
		stops: map[string]model.Stop{
			"end_turn": model.StopEnd, "stop_sequence": model.StopEnd, "pause_turn": model.StopLength, "max_tokens": model.StopLength,
			"model_context_window_exceeded": model.StopLength, "refusal": model.StopRefused,
			"tool_use":   model.StopEnd, // without calls
			"new_reason": model.StopEnd,
		},
	})
}

// runSuite tests what all formats have in common: with each, a Model must behave in the same way.
func runSuite(t *testing.T, s subject) {
	for name, test := range map[string]func(*testing.T, subject){
		"text":          testText,
		"calls":         testCalls,
		"history":       testHistory,
		"names":         testNames,
		"stop":          testStop,
		"usage":         testUsage,
		"status":        testStatus,
		"retry-after":   testRetryAfter,
		"error-event":   testErrorEvent,
		"timeout":       testTimeout,
		"slow":          testSlow,
		"canceled":      testCanceled,
		"cut":           testCut,
		"malformed":     testMalformed,
		"too-large":     testTooLarge,
		"secrets":       testSecrets,
		"key":           testKey,
		"no-connection": testNoConnection,
		"requests":      testRequests,
		"no-stream":     testNoStream,
		"options":       testOptions,
		"authorize":     testAuthorize,
		"cache":         testCache,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// api starts a server, and returns it and the Model that calls it.
func (s subject) api(t *testing.T, change func(*model.APIOptions), steps ...modelserver.Step) (*modelserver.Server, model.Model) {
	t.Helper()
	server := &modelserver.Server{Respond: modelserver.Sequence(steps...), Key: key}
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	transport := model.NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	options := model.APIOptions{
		BaseURL: listening.URL + "/v1", Key: func() (string, error) { return key + "\n", nil }, Model: "model-1", MaxTokens: 100,
		MaxResponse: maxResponse, Timeout: time.Minute, Transport: transport,
	}
	if change != nil {
		change(&options)
	}
	m, err := s.create(options)
	if err != nil {
		t.Fatal(err)
	}
	return server, m
}

// question returns a request.
func question() *model.Request {
	return &model.Request{
		System:   "Be brief.",
		Messages: []model.Message{{Role: model.RoleUser, Text: "Where is train 7?"}},
		Tools: []model.Tool{
			{Name: "find_train", Description: "Finds a train.", Schema: jsontext.Value(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`)},
			{Name: "now"},
		},
	}
}

// both runs a test without and with streaming. generate also checks that the pieces of text are
// those of the response.
func both(t *testing.T, test func(t *testing.T, stream bool, generate func(context.Context, model.Model, *model.Request) (*model.Response, error))) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%t", stream), func(t *testing.T) {
			test(t, stream, func(ctx context.Context, m model.Model, r *model.Request) (*model.Response, error) {
				if !stream {
					return m.Generate(ctx, r, nil)
				}
				var pieces strings.Builder
				response, err := m.Generate(ctx, r, func(text string) { pieces.WriteString(text) })
				if err == nil && pieces.String() != response.Text {
					t.Errorf("the pieces are %q, want %q", pieces.String(), response.Text)
				}
				return response, err
			})
		})
	}
}

type generate = func(context.Context, model.Model, *model.Request) (*model.Response, error)

// equal compares two values by their JSON.
func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if a, b := encodeEvent(t, got), encodeEvent(t, want); a != b {
		t.Errorf("%s\n got %s\nwant %s", what, a, b)
	}
}

func encodeEvent(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}
