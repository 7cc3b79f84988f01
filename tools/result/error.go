package result

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

const (
	// MaxDetail limits how much of the API's error message a failure repeats, in bytes.
	MaxDetail = 1 << 10

	// maxProblemBody is the size, in bytes, of the largest error response that is searched
	// for a message.
	maxProblemBody = 64 << 10
)

// Advice returns what to do about a status, or "".
func Advice(status int) string {
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

// RetryAfter parses a Retry-After header, which holds seconds or a date.
func RetryAfter(header string, now time.Time) time.Duration {
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

// ErrorDetail finds the error message in a response: in a problem document (RFC 9457),
// in the error formats of most APIs, or in plain text.
func ErrorDetail(body []byte, mediaType string, status int) string {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0 || len(body) > maxProblemBody:
		return ""
	case body[0] == '{':
		members, err := strictjson.Members(nil, body)
		if err != nil {
			return ""
		}
		return text.Cut(errorText(members, http.StatusText(status), 0), MaxDetail)
	case mediaType == "text/html":
		return text.Cut(strings.TrimSpace("an HTML page"+PageTitle(body)), MaxDetail)
	case strings.HasPrefix(mediaType, "text/"):
		return text.Cut(strings.ToValidUTF8(string(body), "\ufffd"), MaxDetail)
	}
	return ""
}

// errorText joins the human-readable members of an error object. It omits text that said
// contains already.
func errorText(members []strictjson.Member, said string, depth int) string {
	const deepest = 3
	var parts []string
	for _, name := range []string{"title", "error", "message", "error_description", "detail", "details", "errors"} {
		for _, m := range members {
			if m.Name != name {
				continue
			}
			if source := errorValue(m.Value, depth+1); source != "" && source != said && depth < deepest &&
				!slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(part, source) }) {
				parts = append(parts, source)
			}
		}
	}
	return strings.Join(parts, ": ")
}

func errorValue(value jsontext.Value, depth int) string {
	switch value.Kind() {
	case '"':
		return strictjson.Text(value)
	case '{':
		members, _ := strictjson.Members(nil, value)
		return cmp.Or(errorText(members, "", depth), string(value))
	case '[':
		if len(value) > len("[]") {
			return string(value)
		}
	}
	return ""
}

// PageTitle returns the title of an HTML page as ` titled "…"`, or "" if there is no title
// near its beginning.
func PageTitle(page []byte) string {
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
