package ocp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/strictjson"
)

// maxUncompressed is the largest JSON of a session, in characters, that is sent
// uncompressed. The protocol says 1 KB (OCP 1.0, Performance Requirements), which both
// known clients interpret as 1,000 characters.
const maxUncompressed = 1000

// errSessionTooLong reports a context that is too long for an OCP-Session header.
var errSessionTooLong = errors.New("the encoded session is too long")

// AppendJSON appends the context as a JSON object with only the schema's fields. Optional
// fields without a value are omitted.
func (c *Context) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"context_id":`...)
	dst = strictjson.AppendString(dst, c.ContextID)
	dst = append(dst, `,"agent_type":`...)
	dst = strictjson.AppendString(dst, c.AgentType)
	dst = appendTextField(dst, "user", c.User)
	dst = appendTextField(dst, "workspace", c.Workspace)
	dst = appendTextField(dst, "current_file", c.CurrentFile)
	dst = appendTextField(dst, "current_goal", c.CurrentGoal)
	dst = appendTextField(dst, "context_summary", c.ContextSummary)
	dst = appendTextField(dst, "error_context", c.ErrorContext)
	if len(c.RecentChanges) > 0 {
		dst = append(dst, `,"recent_changes":`...)
		dst = strictjson.AppendStrings(dst, c.RecentChanges)
	}
	if c.Session != nil {
		dst = append(dst, `,"session":`...)
		dst = c.Session.append(dst)
	}
	if len(c.History) > 0 {
		dst = append(dst, `,"history":[`...)
		for i := range c.History {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = c.History[i].append(dst)
		}
		dst = append(dst, ']')
	}
	if len(c.APISpecs) > 0 {
		dst = append(dst, `,"api_specs":{`...)
		for i, name := range slices.Sorted(maps.Keys(c.APISpecs)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strictjson.AppendString(dst, name)
			dst = append(dst, ':')
			dst = strictjson.AppendString(dst, c.APISpecs[name])
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `,"created_at":`...)
	dst = appendTime(dst, c.CreatedAt)
	dst = append(dst, `,"last_updated":`...)
	dst = appendTime(dst, c.LastUpdated)
	return append(dst, '}')
}

func appendTextField(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return strictjson.AppendString(dst, text)
}

// appendTime appends the time with zero, three or six fractional digits. The Python client
// does not accept any other number of digits.
func appendTime(dst []byte, t time.Time) []byte {
	t = timestamp(t)
	if year := t.Year(); year < 0 || year > 9999 { // Validate reports this as a fault
		return t.AppendFormat(dst, `"2006-01-02T15:04:05Z"`)
	}
	switch microseconds := t.Nanosecond() / int(time.Microsecond); {
	case microseconds%1000 != 0:
		return t.AppendFormat(dst, `"2006-01-02T15:04:05.000000Z"`)
	case microseconds != 0:
		return t.AppendFormat(dst, `"2006-01-02T15:04:05.000Z"`)
	}
	return t.AppendFormat(dst, `"2006-01-02T15:04:05Z"`)
}

func (s *SessionMetadata) append(dst []byte) []byte {
	dst = append(dst, `{"start_time":`...)
	dst = appendTime(dst, s.StartTime)
	dst = append(dst, `,"interaction_count":`...)
	dst = strconv.AppendInt(dst, s.InteractionCount, 10)
	dst = append(dst, `,"agent_type":`...)
	dst = strictjson.AppendString(dst, s.AgentType)
	dst = appendMembers(dst, s.Extra)
	return append(dst, '}')
}

// appendMembers appends the members of an object to an object that is not closed yet.
func appendMembers(dst []byte, object jsontext.Value) []byte {
	for walk := strictjson.Into(object); walk.Next() && walk.Name != nil; {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, walk.Name...)
		dst = append(dst, ':')
		dst = append(dst, walk.Value...)
	}
	return dst
}

// EncodeSession returns the context as the value of an OCP-Session header: Base64 of the
// JSON. If the JSON has more than 1,000 characters, it is compressed with gzip and the
// value has the prefix "gzip:". If the value is longer than MaxSession, EncodeSession returns
// an error. FitSession shortens the context instead.
func (c *Context) EncodeSession() (string, error) {
	encoded := c.encode()
	if len(encoded) > MaxSession {
		return "", fmt.Errorf("%w: it has %d bytes and may have %d", errSessionTooLong, len(encoded), MaxSession)
	}
	return encoded, nil
}

func (c *Context) encode() string {
	text := buffer.Get()
	defer buffer.Put(text)
	text.B = c.AppendJSON(text.B)
	content, prefix := text, ""
	if utf8.RuneCount(text.B) > maxUncompressed {
		content, prefix = buffer.Get(), gzipPrefix
		defer buffer.Put(content)
		compress(content, text.B)
	}
	encoded := buffer.Get()
	defer buffer.Put(encoded)
	encoded.B = append(encoded.B, prefix...)
	encoded.B = base64.StdEncoding.AppendEncode(encoded.B, content.B)
	return string(encoded.B)
}

var deflaters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// compress writes content to dst, compressed with gzip. It cannot fail.
func compress(dst *buffer.Buffer, content []byte) {
	z := deflaters.Get().(*gzip.Writer)
	defer deflaters.Put(z)
	z.Reset(dst)
	_, _ = z.Write(content)
	_ = z.Close()
	z.Reset(nil)
}

// SetHeaders writes the OCP headers of the context (OCP 1.0, HTTP Headers) and replaces
// existing ones. FitSession shortens the session if needed. If a text is too long or has
// line breaks, its header is omitted and only the session carries it. If a required header
// cannot be written, the error is a Fault and header is unchanged.
func (c *Context) SetHeaders(header http.Header) error {
	if reason := checkContextID(c.ContextID, false); reason != "" {
		return Fault{Field: HeaderName(HeaderContextID), Reason: reason}
	}
	if reason := checkAgentType(c.AgentType); reason != "" {
		return Fault{Field: HeaderName(HeaderAgentType), Reason: reason}
	}
	session, _ := c.FitSession(MaxSession)
	setHeader(header, HeaderContextID, c.ContextID)
	setHeader(header, HeaderAgentType, c.AgentType)
	setHeader(header, HeaderCurrentGoal, carried(c.CurrentGoal, checkCurrentGoal))
	setHeader(header, HeaderUser, carried(c.User, checkUser))
	setHeader(header, HeaderWorkspace, carried(c.Workspace, checkWorkspace))
	setHeader(header, HeaderSession, session)
	setHeader(header, HeaderVersion, Version)
	return nil
}

// carried returns the text if it is valid in a header, and "" otherwise.
func carried(text string, check func(string) Reason) string {
	if check(text) != "" {
		return ""
	}
	return text
}
