package stream

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
func reduce(format Format, o Options, pieces ...string) (got reduced) {
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
		"sse/line feeds":               {EventStream, "data: 1\n\ndata: 2\n\n", []string{"content 1 1", "content 2 2"}, "1\n2", asText, nil},
		"sse/carriage returns":         {EventStream, "data: 1\r\rdata: 2\r\r", []string{"content 1 1", "content 2 2"}, "1\n2", asText, nil},
		"sse/both":                     {EventStream, "data: 1\r\n\r\ndata: 2\r\n\r\n", []string{"content 1 1", "content 2 2"}, "1\n2", asText, nil},
		"sse/mixed":                    {EventStream, "data: a\rdata: b\ndata: c\r\n\r\r\n", []string{`content 1 "a\nb\nc"`}, "a\nb\nc", asText, nil},
		"sse/byte order mark":          {EventStream, "\xef\xbb\xbfdata: 1\n\n", []string{"content 1 1"}, "1", asJSON, nil},
		"sse/second byte order mark":   {EventStream, "\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\n", nil, "", "", nil},
		"sse/comments":                 {EventStream, ": hello\n:\ndata: 1\n:x\n\n", []string{"content 1 1"}, "1", asJSON, nil},
		"sse/lines of data":            {EventStream, "data: {\ndata:  \"a\": 1\ndata: }\n\n", []string{`content 1 {"a":1}`}, "{\n \"a\": 1\n}", asJSON, nil},
		"sse/one space":                {EventStream, "data:  x\n\ndata:y\n\n", []string{`content 1 " x"`, `content 2 "y"`}, " x\ny", asText, nil},
		"sse/no colon":                 {EventStream, "data\ndata\ndata: x\n\n", []string{`content 1 "\n\nx"`}, "\n\nx", asText, nil},
		"sse/colon in data":            {EventStream, "data: a: b\n\n", []string{`content 1 "a: b"`}, "a: b", asText, nil},
		"sse/other fields":             {EventStream, "id: 7\nretry: 5\nDATA: no\nfoo: bar\ndata: 1\n\n", []string{"content 1 1"}, "1", asJSON, nil},
		"sse/no data":                  {EventStream, "event: result\n\ndata: 1\n\n", []string{"content 1 1"}, "1", asJSON, nil},
		"sse/empty data":               {EventStream, "data:\n\ndata: 1\n\ndata\n\n", []string{"content 1 1"}, "1", asJSON, nil},
		"sse/last name counts":         {EventStream, "event: log\nevent: result\ndata: 1\n\n", nil, "1", asJSON, nil},
		"sse/not UTF-8":                {EventStream, "data: a\xffb\n\n", []string{`content 1 "a` + "\ufffd" + `b"`}, "a\ufffdb", asText, nil},
		"sse/cut off":                  {EventStream, "data: 1\n\ndata: 2\n", []string{"content 1 1"}, "1", "", ErrCutOff},
		"sse/cut off in the line":      {EventStream, "data: 1\n\ndata: 2", []string{"content 1 1"}, "1", "", ErrCutOff},
		"sse/cut off after the result": {EventStream, "event: result\ndata: 1\n\ndata: 2", nil, "1", asJSON, nil},
		"sse/comment at the end":       {EventStream, "data: 1\n\n: bye", []string{"content 1 1"}, "1", asJSON, nil},

		// What an event is.
		"sse/progress":            {EventStream, "event: progress\ndata: {\"progress\":1,\"total\":4,\"message\":\"a\\nb\",\"more\":0}\n\n", []string{`progress 1/4 "a\nb"`}, "", "", nil},
		"sse/progress, a number":  {EventStream, "event: progress\ndata: 0.5\n\n", []string{`progress 0.5/ ""`}, "", "", nil},
		"sse/progress, a message": {EventStream, "event: progress\ndata: half\n\nevent: progress\ndata: \"done\"\n\n", []string{`progress 1/ "half"`, `progress 2/ "done"`}, "", "", nil},
		"sse/progress by value":   {EventStream, "data: {\"progress\":1.5}\n\n", []string{`progress 1.5/ ""`}, "", "", nil},
		"sse/progress, and more":  {EventStream, "data: {\"progress\":1,\"id\":7}\n\n", []string{`content 1 {"progress":1,"id":7}`}, `{"progress":1,"id":7}`, asJSON, nil},
		"sse/progress, no number": {EventStream, "data: {\"progress\":\"1\"}\n\n", []string{`content 1 {"progress":"1"}`}, `{"progress":"1"}`, asJSON, nil},
		"sse/name of its own":     {EventStream, "event: update\ndata: {\"progress\":1}\n\n", []string{`content 1 {"progress":1}`}, `{"progress":1}`, asJSON, nil},
		"sse/event message":       {EventStream, "event: message\ndata: {\"progress\":1}\n\n", []string{`progress 1/ ""`}, "", "", nil},
		"sse/log":                 {EventStream, "event: log\ndata: {\"level\":\"warn\",\"logger\":\"db\",\"data\":{\"a\": 1}}\n\n", []string{`log warning "db" {"a": 1}`}, "", "", nil},
		"sse/log, text":           {EventStream, "event: log\ndata: slow today\n\n", []string{`log info "" "slow today"`}, "", "", nil},
		"sse/log without data":    {EventStream, "event: log\ndata: {\"level\":\"odd\",\"msg\":\"x\"}\n\n", []string{`log info "" {"level":"odd","msg":"x"}`}, "", "", nil},
		"sse/log by value":        {EventStream, "data: {\"level\":\"error\",\"data\":\"x\"}\n\n", []string{`log error "" "x"`}, "", "", nil},
		"sse/no level":            {EventStream, "data: {\"level\":\"low\",\"data\":\"x\"}\n\n", []string{`content 1 {"level":"low","data":"x"}`}, `{"level":"low","data":"x"}`, asJSON, nil},
		"sse/level, and more":     {EventStream, "data: {\"level\":\"info\",\"data\":1,\"id\":2}\n\n", []string{`content 1 {"level":"info","data":1,"id":2}`}, `{"level":"info","data":1,"id":2}`, asJSON, nil},
		"sse/result":              {EventStream, "data: {\"a\":1}\n\nevent: result\ndata: {\"b\":2}\n\ndata: late\n\n", []string{`content 1 {"a":1}`, `content 2 "late"`}, `{"b":2}`, asJSON, nil},
		"sse/result, text":        {EventStream, "event: result\ndata: all\ndata: well\n\n", nil, "all\nwell", asText, nil},
		"sse/result, empty":       {EventStream, "data: 1\n\nevent: result\ndata:\n\n", []string{"content 1 1"}, "", "", nil},
		"sse/result looks like":   {EventStream, "event: result\ndata: {\"progress\":1}\n\n", nil, `{"progress":1}`, asJSON, nil},
		"sse/last result counts":  {EventStream, "event: result\ndata: 1\n\nevent: result\ndata: two\n\n", nil, "two", asText, nil},
		"sse/native result":       {EventStream, "event: mcp-result\ndata: {\"content\":[]}\n\n", nil, `{"content":[]}`, asMCP, nil},
		"sse/one text":            {EventStream, "data: hello\n\n", []string{`content 1 "hello"`}, "hello", asText, nil},
		"sse/nothing":             {EventStream, ": keep alive\n\n", nil, "", "", nil},

		// Lines of JSON.
		"lines/one":                    {Lines, "{\"a\":1}\n", []string{`content 1 {"a":1}`}, `{"a":1}`, asJSON, nil},
		"lines/several":                {Lines, "{\"a\":1}\r\n\r\n[2]\n", []string{`content 1 {"a":1}`, "content 2 [2]"}, "{\"a\":1}\n[2]", asText, nil},
		"lines/without an end":         {Lines, "{\"a\":1}", []string{`content 1 {"a":1}`}, `{"a":1}`, asJSON, nil},
		"lines/byte order mark":        {Lines, "\xef\xbb\xbf{\"a\":1}\n", []string{`content 1 {"a":1}`}, `{"a":1}`, asJSON, nil},
		"lines/carriage return inside": {Lines, "{\"a\":\r1}\n", []string{`content 1 {"a":1}`}, "{\"a\":\r1}", asJSON, nil},
		"lines/broken":                 {Lines, "{\"a\":\n", []string{`content 1 "{\"a\":"`}, `{"a":`, asText, nil},
		"lines/broken progress":        {Lines, "{\"progress\":1\n", []string{`content 1 "{\"progress\":1"`}, `{"progress":1`, asText, nil},
		"lines/progress":               {Lines, "{\"type\":\"progress\",\"progress\":2,\"step\":\"x\"}\n", []string{`progress 2/ ""`}, "", "", nil},
		"lines/progress by value":      {Lines, "{\"progress\":2,\"total\":3}\n", []string{`progress 2/3 ""`}, "", "", nil},
		"lines/progress, no number":    {Lines, "{\"type\":\"progress\",\"message\":\"x\"}\n", []string{`progress 1/ "x"`}, "", "", nil},
		"lines/log":                    {Lines, "{\"type\":\"log\",\"data\":[1],\"x\":0}\n", []string{`log info "" [1]`}, "", "", nil},
		"lines/result":                 {Lines, "{\"a\":1}\n{\"type\":\"result\",\"result\":{\"b\": 2}}\n", []string{`content 1 {"a":1}`}, `{"b": 2}`, asJSON, nil},
		"lines/result, a string":       {Lines, "{\"type\":\"result\",\"result\":\"x\"}\n", nil, `"x"`, asJSON, nil},
		"lines/no result in it":        {Lines, "{\"type\":\"result\",\"id\":1}\n", []string{`content 1 {"type":"result","id":1}`}, `{"type":"result","id":1}`, asJSON, nil},
		"lines/native result":          {Lines, "{\"type\":\"mcp-result\",\"result\":{\"content\":[]}}\n", nil, `{"content":[]}`, asMCP, nil},
		"lines/native, no object":      {Lines, "{\"type\":\"mcp-result\",\"result\":1}\n", []string{`content 1 {"type":"mcp-result","result":1}`}, `{"type":"mcp-result","result":1}`, asJSON, nil},
		"lines/another type":           {Lines, "{\"type\":\"trip\",\"id\":1}\n", []string{`content 1 {"type":"trip","id":1}`}, `{"type":"trip","id":1}`, asJSON, nil},
		"lines/numbers of its own":     {Lines, "{\"progress\":2}\n{\"a\":1}\n{\"type\":\"progress\"}\n", []string{`progress 2/ ""`, `content  {"a":1}`, `progress / ""`}, `{"a":1}`, asJSON, nil},
		"lines/deeper than a message":  {Lines, strings.Repeat("[", 40) + strings.Repeat("]", 40), []string{`content 1 "` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `"`}, strings.Repeat("[", 40) + strings.Repeat("]", 40), asJSON, nil},
		"lines/too deep":               {Lines, strings.Repeat("[", 2000) + strings.Repeat("]", 2000), []string{`content 1 "` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `"`}, strings.Repeat("[", 2000) + strings.Repeat("]", 2000), asText, nil},
	} {
		t.Run(name, func(t *testing.T) {
			want := reduced{events: test.events, body: test.body, contentType: test.as, err: test.err}
			if got := reduce(test.format, Options{}, test.stream); got.String() != want.String() {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if got := reduce(test.format, Options{}, strings.Split(test.stream, "")...); got.String() != want.String() {
				t.Errorf("byte by byte: got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	line := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	small := Options{MaxContent: 100, MaxEvent: 50, MaxTold: 3}
	wide := Options{MaxContent: 50, MaxEvent: 100, MaxTold: 3}
	progress := "{\"progress\":1}\n"
	for name, test := range map[string]struct {
		format  Format
		options Options
		stream  string
		err     error
	}{
		"as much content as there may be": {Lines, small, line(49) + "\n" + line(50) + "\n", nil},
		"a byte more":                     {Lines, small, line(50) + "\n" + line(50) + "\n", ErrTooLarge},
		"one line of content":             {Lines, small, line(100) + "\n", nil},
		"one line that is longer":         {Lines, small, line(101) + "\n", ErrTooLarge},
		"a line without an end":           {Lines, small, strings.Repeat("x", 1000), ErrTooLarge},
		"one event":                       {EventStream, small, "data: " + line(100) + "\n\n", nil},
		"one event that is longer":        {EventStream, small, "data: " + line(101) + "\n\n", ErrTooLarge},
		"an event of many lines":          {EventStream, small, strings.Repeat("data: x\n", 1000), ErrTooLarge},
		"a comment without an end":        {EventStream, small, ":" + strings.Repeat("x", 1000), ErrTooLarge},
		"a result":                        {EventStream, small, "event: result\ndata: " + line(100) + "\n\n", nil},
		"a result after content":          {EventStream, small, "data: " + line(90) + "\n\nevent: result\ndata: " + line(100) + "\n\n", nil},
		"a result that is longer":         {EventStream, wide, "event: result\ndata: " + line(51) + "\n\n", ErrTooLarge},
		"a log line":                      {EventStream, small, "event: log\ndata: " + line(50) + "\n\n", nil},
		"a log line that is longer":       {EventStream, small, "event: log\ndata: " + line(51) + "\n\n", ErrEventTooLarge},
		"a log line may be longer":        {EventStream, wide, "event: log\ndata: " + line(100) + "\n\n", nil},
		"progress":                        {Lines, small, strings.Repeat(progress, 3), nil},
		"progress without an end":         {Lines, small, strings.Repeat(progress, 4), ErrTooManyEvents},
		"content is not counted":          {Lines, small, strings.Repeat("1\n", 50), nil},
		"content after the result is":     {Lines, small, "{\"type\":\"result\",\"result\":1}\n" + strings.Repeat("1\n", 4), ErrTooManyEvents},
		"results without an end":          {Lines, small, strings.Repeat("{\"type\":\"result\",\"result\":1}\n", 5), ErrTooManyEvents},
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
		r := NewReducer(Lines, new(buffer.Buffer), small)
		n, err := r.Write([]byte("1\n" + line(101) + "\n2\n"))
		if n >= 105 || !errors.Is(err, ErrTooLarge) || !errors.Is(err, buffer.ErrTooLarge) {
			t.Errorf("wrote %d, %v", n, err)
		}
		if _, err := r.Write([]byte("1\n")); !errors.Is(err, ErrTooLarge) {
			t.Errorf("then %v", err)
		}
	})
	t.Run("nothing is read after the end", func(t *testing.T) {
		r := NewReducer(Lines, new(buffer.Buffer), small)
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
	r := NewReducer(EventStream, to, Options{Listener: func(Event) { told++ }})
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
		"text/event-stream":                 EventStream,
		"Text/Event-Stream; charset=utf-8":  EventStream,
		"application/x-ndjson":              Lines,
		"application/ndjson ; charset=utf8": Lines,
		"application/jsonl":                 Lines,
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
