// Package modeltest is the conformance test of Models that call an HTTP API. Each runs it
// against package modelserver, so that all behave alike.
package modeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/modelserver"
	"github.com/fairwayhq/fairway/oagent/model"
)

// key is the API key. No error may contain it.
const key = "sk-very-secret-0123456789"

// maxResponse is the limit of responses in these tests, in bytes.
const maxResponse = 256 << 10

// Subject is the Model under test.
type Subject struct {
	// New returns the Model.
	New func(model.APIOptions) (model.Model, error)

	// RawArguments reports that the format without streaming carries arguments that are not JSON.
	RawArguments bool

	// Stops are the reasons of the wire format to stop.
	Stops map[string]model.Stop
}

// Run runs all tests.
func Run(t *testing.T, s Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"text":          testText,
		"calls":         testCalls,
		"history":       testHistory,
		"names":         testNames,
		"stop":          testStop,
		"usage":         testUsage,
		"status":        testStatus,
		"error-event":   testErrorEvent,
		"timeout":       testTimeout,
		"canceled":      testCanceled,
		"cut":           testCut,
		"malformed":     testMalformed,
		"too-large":     testTooLarge,
		"secrets":       testSecrets,
		"key":           testKey,
		"no-connection": testNoConnection,
		"requests":      testRequests,
		"no-stream":     testNoStream,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// api starts a server, and returns it and the Model that calls it.
func (s Subject) api(t *testing.T, change func(*model.APIOptions), steps ...modelserver.Step) (*modelserver.Server, model.Model) {
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
	m, err := s.New(options)
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
	if a, b := encode(t, got), encode(t, want); a != b {
		t.Errorf("%s\n got %s\nwant %s", what, a, b)
	}
}

func encode(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}
