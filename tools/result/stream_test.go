package result

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/buffer"
)

// reduced is what became of a stream.
type reduced struct {
	events      []string
	body        string
	contentType string
	err         error
}

// reduce writes the pieces one after the other.
func reduce(format Format, o StreamOptions, pieces ...string) (got reduced) {
	to := buffer.Get()
	defer buffer.Put(to)
	o.Listener = func(e Event) { got.events = append(got.events, describe(e)) }
	r := NewReducer(format, to, o)
	for _, piece := range pieces {
		if _, err := r.Write([]byte(piece)); err != nil {
			break
		}
	}
	got.contentType, got.err = r.Finish()
	got.body = string(to.B)
	return got
}

func describe(e Event) string {
	switch e.Kind {
	case Progress:
		return fmt.Sprintf("progress %s/%s %q", string(e.Progress), string(e.Total), e.Message)
	case Log:
		return fmt.Sprintf("log %s %q %s", e.Level, e.Logger, e.Data)
	}
	return fmt.Sprintf("content %s %s", string(e.Progress), e.Data)
}

func (got reduced) String() string {
	return fmt.Sprintf("%s\n%s: %s (%v)", strings.Join(got.events, "\n"), got.contentType, got.body, got.err)
}

func TestReduce(t *testing.T) {
	const (
		asJSON = "application/json"
		asText = "text/plain; charset=utf-8"
		asMCP  = "application/vnd.mcp.result+json"
	)
	for name, test := range map[string]struct {
		format Format
		stream string
		events []string
		body   string
		as     string
		err    error
	}{
		// The grammar of event streams.
		"sse/line feeds":               {eventStream, "data: 1\n\ndata: 2\n\n", []string{"content 1 1", "content 2 2"}, "1\n2", asText, nil},
		"sse/carriage returns":         {eventStream, "data: 1\r\rdata: 2\r\r", []string{"content 1 1", "content 2 2"}, "1\n2", asText, nil},
		"sse/both":                     {eventStream, "data: 1\r\n\r\ndata: 2\r\n\r\n", []string{"content 1 1", "content 2 2"}, "1\n2", asText, nil},
		"sse/mixed":                    {eventStream, "data: a\rdata: b\ndata: c\r\n\r\r\n", []string{`content 1 "a\nb\nc"`}, "a\nb\nc", asText, nil},
		"sse/byte order mark":          {eventStream, "\xef\xbb\xbfdata: 1\n\n", []string{"content 1 1"}, "1", asJSON, nil},
		"sse/second byte order mark":   {eventStream, "\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\n", nil, "", "", nil},
		"sse/comments":                 {eventStream, ": hello\n:\ndata: 1\n:x\n\n", []string{"content 1 1"}, "1", asJSON, nil},
		"sse/lines of data":            {eventStream, "data: {\ndata:  \"a\": 1\ndata: }\n\n", []string{`content 1 {"a":1}`}, "{\n \"a\": 1\n}", asJSON, nil},
		"sse/one space":                {eventStream, "data:  x\n\ndata:y\n\n", []string{`content 1 " x"`, `content 2 "y"`}, " x\ny", asText, nil},
		"sse/no colon":                 {eventStream, "data\ndata\ndata: x\n\n", []string{`content 1 "\n\nx"`}, "\n\nx", asText, nil},
		"sse/colon in data":            {eventStream, "data: a: b\n\n", []string{`content 1 "a: b"`}, "a: b", asText, nil},
		"sse/other fields":             {eventStream, "id: 7\nretry: 5\nDATA: no\nfoo: bar\ndata: 1\n\n", []string{"content 1 1"}, "1", asJSON, nil},
		"sse/no data":                  {eventStream, "event: result\n\ndata: 1\n\n", []string{"content 1 1"}, "1", asJSON, nil},
		"sse/empty data":               {eventStream, "data:\n\ndata: 1\n\ndata\n\n", []string{"content 1 1"}, "1", asJSON, nil},
		"sse/last name counts":         {eventStream, "event: log\nevent: result\ndata: 1\n\n", nil, "1", asJSON, nil},
		"sse/not UTF-8":                {eventStream, "data: a\xffb\n\n", []string{`content 1 "a` + "\ufffd" + `b"`}, "a\ufffdb", asText, nil},
		"sse/cut off":                  {eventStream, "data: 1\n\ndata: 2\n", []string{"content 1 1"}, "1", "", ErrCutOff},
		"sse/cut off in the line":      {eventStream, "data: 1\n\ndata: 2", []string{"content 1 1"}, "1", "", ErrCutOff},
		"sse/cut off after the result": {eventStream, "event: result\ndata: 1\n\ndata: 2", nil, "1", asJSON, nil},
		"sse/comment at the end":       {eventStream, "data: 1\n\n: bye", []string{"content 1 1"}, "1", asJSON, nil},

		// What an event is.
		"sse/progress":            {eventStream, "event: progress\ndata: {\"progress\":1,\"total\":4,\"message\":\"a\\nb\",\"more\":0}\n\n", []string{`progress 1/4 "a\nb"`}, "", "", nil},
		"sse/progress, a number":  {eventStream, "event: progress\ndata: 0.5\n\n", []string{`progress 0.5/ ""`}, "", "", nil},
		"sse/progress, a message": {eventStream, "event: progress\ndata: half\n\nevent: progress\ndata: \"done\"\n\n", []string{`progress 1/ "half"`, `progress 2/ "done"`}, "", "", nil},
		"sse/progress by value":   {eventStream, "data: {\"progress\":1.5}\n\n", []string{`progress 1.5/ ""`}, "", "", nil},
		"sse/progress, and more":  {eventStream, "data: {\"progress\":1,\"id\":7}\n\n", []string{`content 1 {"progress":1,"id":7}`}, `{"progress":1,"id":7}`, asJSON, nil},
		"sse/progress, no number": {eventStream, "data: {\"progress\":\"1\"}\n\n", []string{`content 1 {"progress":"1"}`}, `{"progress":"1"}`, asJSON, nil},
		"sse/name of its own":     {eventStream, "event: update\ndata: {\"progress\":1}\n\n", []string{`content 1 {"progress":1}`}, `{"progress":1}`, asJSON, nil},
		"sse/event message":       {eventStream, "event: message\ndata: {\"progress\":1}\n\n", []string{`progress 1/ ""`}, "", "", nil},
		"sse/log":                 {eventStream, "event: log\ndata: {\"level\":\"warn\",\"logger\":\"db\",\"data\":{\"a\": 1}}\n\n", []string{`log warning "db" {"a": 1}`}, "", "", nil},
		"sse/log, text":           {eventStream, "event: log\ndata: slow today\n\n", []string{`log info "" "slow today"`}, "", "", nil},
		"sse/log without data":    {eventStream, "event: log\ndata: {\"level\":\"odd\",\"msg\":\"x\"}\n\n", []string{`log info "" {"level":"odd","msg":"x"}`}, "", "", nil},
		"sse/log by value":        {eventStream, "data: {\"level\":\"error\",\"data\":\"x\"}\n\n", []string{`log error "" "x"`}, "", "", nil},
		"sse/no level":            {eventStream, "data: {\"level\":\"low\",\"data\":\"x\"}\n\n", []string{`content 1 {"level":"low","data":"x"}`}, `{"level":"low","data":"x"}`, asJSON, nil},
		"sse/level, and more":     {eventStream, "data: {\"level\":\"info\",\"data\":1,\"id\":2}\n\n", []string{`content 1 {"level":"info","data":1,"id":2}`}, `{"level":"info","data":1,"id":2}`, asJSON, nil},
		"sse/result":              {eventStream, "data: {\"a\":1}\n\nevent: result\ndata: {\"b\":2}\n\ndata: late\n\n", []string{`content 1 {"a":1}`, `content 2 "late"`}, `{"b":2}`, asJSON, nil},
		"sse/result, text":        {eventStream, "event: result\ndata: all\ndata: well\n\n", nil, "all\nwell", asText, nil},
		"sse/result, empty":       {eventStream, "data: 1\n\nevent: result\ndata:\n\n", []string{"content 1 1"}, "", "", nil},
		"sse/result looks like":   {eventStream, "event: result\ndata: {\"progress\":1}\n\n", nil, `{"progress":1}`, asJSON, nil},
		"sse/last result counts":  {eventStream, "event: result\ndata: 1\n\nevent: result\ndata: two\n\n", nil, "two", asText, nil},
		"sse/native result":       {eventStream, "event: mcp-result\ndata: {\"content\":[]}\n\n", nil, `{"content":[]}`, asMCP, nil},
		"sse/one text":            {eventStream, "data: hello\n\n", []string{`content 1 "hello"`}, "hello", asText, nil},
		"sse/nothing":             {eventStream, ": keep alive\n\n", nil, "", "", nil},

		// Lines of JSON.
		"lines/one":                    {jsonLines, "{\"a\":1}\n", []string{`content 1 {"a":1}`}, `{"a":1}`, asJSON, nil},
		"lines/several":                {jsonLines, "{\"a\":1}\r\n\r\n[2]\n", []string{`content 1 {"a":1}`, "content 2 [2]"}, "{\"a\":1}\n[2]", asText, nil},
		"lines/without an end":         {jsonLines, "{\"a\":1}", []string{`content 1 {"a":1}`}, `{"a":1}`, asJSON, nil},
		"lines/byte order mark":        {jsonLines, "\xef\xbb\xbf{\"a\":1}\n", []string{`content 1 {"a":1}`}, `{"a":1}`, asJSON, nil},
		"lines/carriage return inside": {jsonLines, "{\"a\":\r1}\n", []string{`content 1 {"a":1}`}, "{\"a\":\r1}", asJSON, nil},
		"lines/broken":                 {jsonLines, "{\"a\":\n", []string{`content 1 "{\"a\":"`}, `{"a":`, asText, nil},
		"lines/broken progress":        {jsonLines, "{\"progress\":1\n", []string{`content 1 "{\"progress\":1"`}, `{"progress":1`, asText, nil},
		"lines/progress":               {jsonLines, "{\"type\":\"progress\",\"progress\":2,\"step\":\"x\"}\n", []string{`progress 2/ ""`}, "", "", nil},
		"lines/progress by value":      {jsonLines, "{\"progress\":2,\"total\":3}\n", []string{`progress 2/3 ""`}, "", "", nil},
		"lines/progress, no number":    {jsonLines, "{\"type\":\"progress\",\"message\":\"x\"}\n", []string{`progress 1/ "x"`}, "", "", nil},
		"lines/log":                    {jsonLines, "{\"type\":\"log\",\"data\":[1],\"x\":0}\n", []string{`log info "" [1]`}, "", "", nil},
		"lines/result":                 {jsonLines, "{\"a\":1}\n{\"type\":\"result\",\"result\":{\"b\": 2}}\n", []string{`content 1 {"a":1}`}, `{"b": 2}`, asJSON, nil},
		"lines/result, a string":       {jsonLines, "{\"type\":\"result\",\"result\":\"x\"}\n", nil, `"x"`, asJSON, nil},
		"lines/no result in it":        {jsonLines, "{\"type\":\"result\",\"id\":1}\n", []string{`content 1 {"type":"result","id":1}`}, `{"type":"result","id":1}`, asJSON, nil},
		"lines/native result":          {jsonLines, "{\"type\":\"mcp-result\",\"result\":{\"content\":[]}}\n", nil, `{"content":[]}`, asMCP, nil},
		"lines/native, no object":      {jsonLines, "{\"type\":\"mcp-result\",\"result\":1}\n", []string{`content 1 {"type":"mcp-result","result":1}`}, `{"type":"mcp-result","result":1}`, asJSON, nil},
		"lines/another type":           {jsonLines, "{\"type\":\"trip\",\"id\":1}\n", []string{`content 1 {"type":"trip","id":1}`}, `{"type":"trip","id":1}`, asJSON, nil},
		"lines/numbers of its own":     {jsonLines, "{\"progress\":2}\n{\"a\":1}\n{\"type\":\"progress\"}\n", []string{`progress 2/ ""`, `content  {"a":1}`, `progress / ""`}, `{"a":1}`, asJSON, nil},
		"lines/deeper than a message":  {jsonLines, strings.Repeat("[", 40) + strings.Repeat("]", 40), []string{`content 1 "` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `"`}, strings.Repeat("[", 40) + strings.Repeat("]", 40), asJSON, nil},
		"lines/too deep":               {jsonLines, strings.Repeat("[", 2000) + strings.Repeat("]", 2000), []string{`content 1 "` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `"`}, strings.Repeat("[", 2000) + strings.Repeat("]", 2000), asText, nil},
	} {
		t.Run(name, func(t *testing.T) {
			want := reduced{events: test.events, body: test.body, contentType: test.as, err: test.err}
			if got := reduce(test.format, StreamOptions{}, test.stream); got.String() != want.String() {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if got := reduce(test.format, StreamOptions{}, strings.Split(test.stream, "")...); got.String() != want.String() {
				t.Errorf("byte by byte: got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	line := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	small := StreamOptions{MaxContent: 100, MaxEvent: 50, MaxEvents: 3}
	wide := StreamOptions{MaxContent: 50, MaxEvent: 100, MaxEvents: 3}
	progress := "{\"progress\":1}\n"
	for name, test := range map[string]struct {
		format  Format
		options StreamOptions
		stream  string
		err     error
	}{
		"as much content as there may be": {jsonLines, small, line(49) + "\n" + line(50) + "\n", nil},
		"a byte more":                     {jsonLines, small, line(50) + "\n" + line(50) + "\n", errTooLarge},
		"one line of content":             {jsonLines, small, line(100) + "\n", nil},
		"one line that is longer":         {jsonLines, small, line(101) + "\n", errTooLarge},
		"a line without an end":           {jsonLines, small, strings.Repeat("x", 1000), errTooLarge},
		"one event":                       {eventStream, small, "data: " + line(100) + "\n\n", nil},
		"one event that is longer":        {eventStream, small, "data: " + line(101) + "\n\n", errTooLarge},
		"an event of many lines":          {eventStream, small, strings.Repeat("data: x\n", 1000), errTooLarge},
		"a comment without an end":        {eventStream, small, ":" + strings.Repeat("x", 1000), errTooLarge},
		"a result":                        {eventStream, small, "event: result\ndata: " + line(100) + "\n\n", nil},
		"a result after content":          {eventStream, small, "data: " + line(90) + "\n\nevent: result\ndata: " + line(100) + "\n\n", nil},
		"a result that is longer":         {eventStream, wide, "event: result\ndata: " + line(51) + "\n\n", errTooLarge},
		"a log line":                      {eventStream, small, "event: log\ndata: " + line(50) + "\n\n", nil},
		"a log line that is longer":       {eventStream, small, "event: log\ndata: " + line(51) + "\n\n", errEventTooLarge},
		"a log line may be longer":        {eventStream, wide, "event: log\ndata: " + line(100) + "\n\n", nil},
		"progress":                        {jsonLines, small, strings.Repeat(progress, 3), nil},
		"progress without an end":         {jsonLines, small, strings.Repeat(progress, 4), ErrTooManyEvents},
		"content is not counted":          {jsonLines, small, strings.Repeat("1\n", 50), nil},
		"content after the result is":     {jsonLines, small, "{\"type\":\"result\",\"result\":1}\n" + strings.Repeat("1\n", 4), ErrTooManyEvents},
		"results without an end":          {jsonLines, small, strings.Repeat("{\"type\":\"result\",\"result\":1}\n", 5), ErrTooManyEvents},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pieces := range [][]string{{test.stream}, strings.Split(test.stream, "")} {
				if got := reduce(test.format, test.options, pieces...); !errors.Is(got.err, test.err) {
					t.Errorf("in %d pieces: got %v, want %v", len(pieces), got.err, test.err)
				}
			}
		})
	}
	t.Run("an error stays", func(t *testing.T) {
		r := NewReducer(jsonLines, new(buffer.Buffer), small)
		n, err := r.Write([]byte("1\n" + line(101) + "\n2\n"))
		if n >= 105 || !errors.Is(err, errTooLarge) || !errors.Is(err, buffer.ErrTooLarge) {
			t.Errorf("wrote %d, %v", n, err)
		}
		if _, err := r.Write([]byte("1\n")); !errors.Is(err, errTooLarge) {
			t.Errorf("then %v", err)
		}
	})
	t.Run("nothing is read after the end", func(t *testing.T) {
		r := NewReducer(jsonLines, new(buffer.Buffer), small)
		_, _ = r.Finish()
		r.Release()
		if _, err := r.Write([]byte("1\n")); err == nil {
			t.Error("no error")
		}
	})
}

// TestListener: an event is reported before the next byte is read.
func TestListener(t *testing.T) {
	told := 0
	to := new(buffer.Buffer)
	r := NewReducer(eventStream, to, StreamOptions{Listener: func(Event) { told++ }})
	for i := range 3 {
		if _, err := r.Write([]byte("data: x\n\ndata: half of")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Write([]byte(" it\n\n")); err != nil {
			t.Fatal(err)
		}
		if told != 2*(i+1) {
			t.Errorf("got %d events of %d", told, 2*(i+1))
		}
	}
}

func TestFormatOf(t *testing.T) {
	for contentType, want := range map[string]Format{
		"text/event-stream":                 eventStream,
		"Text/Event-Stream; charset=utf-8":  eventStream,
		"application/x-ndjson":              jsonLines,
		"application/ndjson ; charset=utf8": jsonLines,
		"application/jsonl":                 jsonLines,
		"application/json":                  0,
		"text/event-streams":                0,
		"":                                  0,
	} {
		if got := FormatOf(contentType); got != want {
			t.Errorf("%q: %d, want %d", contentType, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { FormatOf("application/json; charset=utf-8") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
