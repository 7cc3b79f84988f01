package tool

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
)

const (
	// maxDetail limits how much of the API's error message a failure repeats, in bytes.
	maxDetail = 1 << 10

	// maxProblemBody is the size, in bytes, of the largest error response that is searched
	// for a message.
	maxProblemBody = 64 << 10
)

// refusal describes a 4xx or 5xx response: the status, the API's error message, and what
// to do next.
func refusal(t *Tool, kind FailureKind, r *Result) *Failure {
	f := &Failure{Kind: kind, Status: r.Status, RetryAfter: retryAfter(r.Header.Get("Retry-After"), time.Now())}
	message := t.Operation() + " answered " + text.StatusLine(r.Status)
	detail := problemDetail(r)
	if detail != "" {
		message += ": " + detail
	}
	if advice := adviceOn(r.Status); advice != "" && (detail == "" || r.Status != http.StatusForbidden) {
		message += " (" + advice + ")"
	}
	if f.RetryAfter > 0 {
		message += fmt.Sprintf("; the API asks to wait %s before the next try", f.RetryAfter)
	}
	f.Message = message
	return f
}

func redirection(t *Tool, r *Result) *Failure {
	message := t.Operation() + " answered " + text.StatusLine(r.Status)
	if r.Status == http.StatusNotModified {
		return &Failure{Kind: Redirected, Status: r.Status, Message: message +
			", so it has nothing but what is known already; call it without a condition (If-None-Match, If-Modified-Since)"}
	}
	if location := r.Header.Get("Location"); location != "" {
		message += " to " + text.Cut(strconv.Quote(location), maxDetail)
	}
	return &Failure{Kind: Redirected, Status: r.Status, Message: message + "; redirects are not followed"}
}

func adviceOn(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "the API wants credentials, or other ones"
	case http.StatusForbidden:
		return "these credentials do not allow it"
	case http.StatusConflict:
		return "read the current state before trying again"
	}
	return ""
}

// retryAfter parses a Retry-After header, which holds seconds or a date.
func retryAfter(header string, now time.Time) time.Duration {
	const longest = 30 * 24 * time.Hour
	if header == "" {
		return 0
	}
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(header); err == nil {
		wait = date.Sub(now).Round(time.Second)
	}
	return min(max(wait, 0), longest)
}

// problemDetail finds the error message in a response: in a problem document (RFC 9457),
// in the error formats of most APIs, or in plain text.
func problemDetail(r *Result) string {
	body := bytes.TrimSpace(r.Body)
	switch {
	case len(body) == 0 || len(body) > maxProblemBody:
		return ""
	case body[0] == '{':
		members, err := wire.Members(nil, body)
		if err != nil {
			return ""
		}
		return text.Cut(errorText(members, http.StatusText(r.Status), 0), maxDetail)
	case r.MediaType() == "text/html":
		return text.Cut(strings.TrimSpace("an HTML page"+pageTitle(body)), maxDetail)
	case strings.HasPrefix(r.MediaType(), "text/"):
		return text.Cut(strings.ToValidUTF8(string(body), "\ufffd"), maxDetail)
	}
	return ""
}

// errorText joins the human-readable members of an error object. It omits text that said
// contains already.
func errorText(members []wire.Member, said string, depth int) string {
	const deepest = 3
	var parts []string
	for _, name := range []string{"title", "error", "message", "error_description", "detail", "details", "errors"} {
		for _, m := range members {
			if m.Name != name {
				continue
			}
			if text := errorValue(m.Value, depth+1); text != "" && text != said && depth < deepest && !contains(parts, text) {
				parts = append(parts, text)
			}
		}
	}
	return strings.Join(parts, ": ")
}

func errorValue(value jsontext.Value, depth int) string {
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return ""
		}
		return string(text)
	case '{':
		members, err := wire.Members(nil, value)
		if err != nil {
			return ""
		}
		if text := errorText(members, "", depth); text != "" {
			return text
		}
		return string(value)
	case '[':
		if len(value) > len("[]") {
			return string(value)
		}
	}
	return ""
}

// contains reports whether one of the parts contains the text.
func contains(parts []string, text string) bool {
	for _, part := range parts {
		if strings.Contains(part, text) {
			return true
		}
	}
	return false
}

// pageTitle returns the title of an HTML page as ` titled "…"`, or "" if there is no title
// near its beginning.
func pageTitle(page []byte) string {
	const head, longest = 4 << 10, 200 // bytes
	page = page[:min(len(page), head)]
	lower := bytes.ToLower(page)
	start := bytes.Index(lower, []byte("<title>"))
	if start < 0 {
		return ""
	}
	start += len("<title>")
	end := bytes.Index(lower[start:], []byte("</title>"))
	if end < 0 || len(lower) != len(page) {
		return ""
	}
	title := strings.Join(strings.Fields(string(page[start:start+end])), " ")
	return fmt.Sprintf(" titled %q", text.Cut(strings.ToValidUTF8(title, ""), longest))
}
