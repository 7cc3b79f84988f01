package tools

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/result"
)

// invokerFunc answers calls in tests.
type invokerFunc func(ctx context.Context, call *Call) (*Result, error)

func (f invokerFunc) Invoke(ctx context.Context, call *Call) (*Result, error) {
	return f(ctx, call)
}

func answering(status int, header http.Header, body string) invokerFunc {
	return func(context.Context, *Call) (*Result, error) {
		if header == nil {
			header = http.Header{}
		}
		return &Result{Status: status, Header: header, Body: []byte(body)}, nil
	}
}

func failing(err error) invokerFunc {
	return func(context.Context, *Call) (*Result, error) { return nil, err }
}

func TestExecute(t *testing.T) {
	problem := http.Header{"Content-Type": {"application/problem+json"}}
	html := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	tools := buildTools(t, testkit.Trains, BuildOptions{Name: "trains"})
	for _, test := range []struct {
		name    string
		tool    string
		invoker Invoker
		kind    FailureKind
		want    string // in the message
	}{
		{"success", "getTrip", answering(200, nil, `{}`), "", ""},
		{"no content", "getTrip", answering(204, nil, ``), "", ""},
		{"unknown tool", "get_trip", nil, UnknownTool, "get_trip getTrip"},
		{"unknown tool, none near", "xyzzyxyzzy", nil, UnknownTool, "xyzzyxyzzy list tools"},
		{
			"problem document", "getTrip", answering(404, problem, `{"title":"No such trip","detail":"trip 7 left"}`),
			Refused, "GET /trips/{id} 404 Found: No such trip: 7 left",
		},
		{
			"problem document whose title is the status", "getTrip", answering(404, problem, `{"title":"Not Found","detail":"trip 7 left"}`),
			Refused, "404 Found: trip 7 left",
		},
		{"nested error", "getTrip", answering(400, nil, `{"error":{"message":"bad class","code":3}}`), Refused, "400 Bad Request: bad class"},
		{"list of errors", "getTrip", answering(422, nil, `{"errors":[{"field":"id"}]}`), Refused, `[{"field":"id"}]`},
		{"text", "getTrip", answering(500, http.Header{"Content-Type": {"text/plain"}}, "boom\n"), Failed, "500 Internal Server Error: boom"},
		{"HTML error page", "getTrip", answering(502, html, `<html><title>Bad
			gateway</title>`), Failed, "502 HTML Bad gateway"},
		{"broken JSON", "getTrip", answering(500, nil, `{"title":`), Failed, "500 Internal Server Error"},
		{"retry after", "getTrip", answering(429, http.Header{"Retry-After": {"7"}}, ""), Refused, "429 7s"},
		{"not modified", "getTrip", answering(304, nil, ""), Redirected, "304 Modified condition"},
		{"redirect", "getTrip", answering(302, http.Header{"Location": {"https://login.example.com/"}}, ""), Redirected, "302 https://login.example.com/ redirects"},
		{"HTML where JSON is declared", "getTrip", answering(200, html, `<title>Sign in</title>`), Unreadable, "HTML Sign in application/json"},
		{"HTML where nothing is declared", "addLabel", answering(200, html, `<p>`), "", ""},
		{"error of the invoker", "getTrip", failing(errors.New("secret of the upstream")), Internal, "log"},
		{"canceled", "getTrip", failing(context.Canceled), Canceled, "canceled"},
		{"deadline", "getTrip", failing(context.DeadlineExceeded), TimedOut, "limit"},
		{"failure of the invoker", "getTrip", failing(&Failure{Kind: TooLarge, Message: "too large"}), TooLarge, "too large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			arguments := `{"id":"7"}`
			if test.tool == "addLabel" {
				arguments = `{}`
			}
			outcome := Execute(context.Background(), tools, test.tool, []byte(arguments), test.invoker)
			defer outcome.Release()
			switch {
			case test.kind == "" && outcome.Failure != nil:
				t.Fatalf("failed: %v", outcome.Failure)
			case test.kind == "":
				return
			case outcome.Failure == nil || outcome.Failure.Kind != test.kind:
				t.Fatalf("failure %+v, want %s", outcome.Failure, test.kind)
			}
			if message := outcome.Failure.Message; !testkit.ContainsAll(message, test.want) || strings.Contains(message, "secret") {
				t.Errorf("message %q does not say %q", message, test.want)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"":                              0,
		"120":                           2 * time.Minute,
		"-1":                            0,
		"soon":                          0,
		"Fri, 20 Nov 2026 12:01:00 GMT": time.Minute,
		"Fri, 20 Nov 2026 11:00:00 GMT": 0,
		"2147483647":                    30 * 24 * time.Hour,
	} {
		if got := result.RetryAfter(header, now); got != want {
			t.Errorf("RetryAfter(%q) = %v, want %v", header, got, want)
		}
	}
}

func TestRetryable(t *testing.T) {
	get, post := &Tool{Plan: Plan{Method: "GET"}}, &Tool{Plan: Plan{Method: "POST"}}
	for _, test := range []struct {
		failure Failure
		tool    *Tool
		want    bool
	}{
		{Failure{Kind: Refused, Status: 429}, post, true},
		{Failure{Kind: Refused, Status: 404}, get, false},
		{Failure{Kind: Refused, Status: 408}, get, true},
		{Failure{Kind: Refused, Status: 408}, post, false},
		{Failure{Kind: Refused, Status: 425}, get, true},
		{Failure{Kind: Refused, Status: 425}, post, false},
		{Failure{Kind: Refused, Status: 425}, nil, false},
		{Failure{Kind: Failed, Status: 501}, get, false},
		{Failure{Kind: Failed, Status: 503}, post, true},
		{Failure{Kind: Failed, Status: 500}, post, false},
		{Failure{Kind: Failed, Status: 500}, get, true},
		{Failure{Kind: TimedOut}, post, false},
		{Failure{Kind: Unreachable}, get, true},
		{Failure{Kind: InvalidArguments}, get, false},
		{Failure{Kind: UnknownTool}, nil, false},
	} {
		if got := test.failure.Retryable(test.tool); got != test.want {
			t.Errorf("%+v with %v: %v, want %v", test.failure, test.tool, got, test.want)
		}
	}
}
