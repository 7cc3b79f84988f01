package sse_test

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/internal/sse"
)

const limit = 20 // bytes of an event

// read returns the events of a stream that a Parser gets in pieces of n bytes, each as name=data.
func read(stream string, n int) (events []string, incomplete bool, err error) {
	p := sse.NewParser(limit, func(e sse.Event) error {
		events = append(events, string(e.Name)+"="+string(e.Data))
		return nil
	})
	defer p.Release()
	for piece := stream; err == nil && piece != ""; piece = piece[min(n, len(piece)):] {
		_, err = p.Write([]byte(piece[:min(n, len(piece))]))
	}
	if err == nil {
		incomplete, err = p.Finish()
	}
	return events, incomplete, err
}

var streams = map[string]struct {
	stream     string
	events     string // joined with |
	incomplete bool
	err        error
}{
	"line-feeds":           {stream: "data: a\n\ndata: b\n\n", events: "=a|=b"},
	"carriage-returns":     {stream: "data: a\r\rdata: b\r\r", events: "=a|=b"},
	"both":                 {stream: "data: a\r\n\r\ndata: b\r\n\r\n", events: "=a|=b"},
	"mixed":                {stream: "data: a\r\ndata: b\r\rdata: c\n\r\n", events: "=a\nb|=c"},
	"names":                {stream: "event: x\ndata: a\n\ndata: b\n\n", events: "x=a|=b"},
	"last-name":            {stream: "event: x\nevent: y\ndata: a\n\n", events: "y=a"},
	"lines":                {stream: "data: a\ndata\ndata:  b\n\n", events: "=a\n\n b"},
	"no-space":             {stream: "data:a\n\n", events: "=a"},
	"byte-order-mark":      {stream: "\xef\xbb\xbfdata: a\n\n", events: "=a"},
	"second-mark":          {stream: "data: a\n\n\xef\xbb\xbfdata: b\n\n", events: "=a"},
	"comments":             {stream: ": data: x\n\n:\ndata: a\n\n", events: "=a"},
	"other-fields":         {stream: "id: 7\nretry: 10\nDATA: x\n data: x\ndata: a\n\n", events: "=a"},
	"no-data":              {stream: "event: x\n\ndata: a\n\n", events: "=a"},
	"empty-data":           {stream: "data:\n\n", events: "="},
	"no-empty-line":        {stream: "data: a\n\ndata: b\n", events: "=a", incomplete: true},
	"no-line-ending":       {stream: "data: a\n\ndata: b", events: "=a", incomplete: true},
	"comment-at-the-end":   {stream: "data: a\n\n: b", events: "=a"},
	"empty":                {},
	"longest-line":         {stream: "data: " + strings.Repeat("x", limit) + "\n\n", events: "=" + strings.Repeat("x", limit)},
	"line-too-long":        {stream: "data: " + strings.Repeat("x", limit+1) + "\n\n", err: sse.ErrTooLarge},
	"unended-line":         {stream: strings.Repeat("x", 100), err: sse.ErrTooLarge},
	"event-too-large":      {stream: strings.Repeat("data: xxxxx\n", 5) + "\n", err: sse.ErrTooLarge},
	"comments-are-free":    {stream: strings.Repeat(": xxxxxxxxxx\n", 9) + "data: a\n\n", events: "=a"},
	"event-before-fault":   {stream: "data: a\n\n" + strings.Repeat("x", 100), events: "=a", err: sse.ErrTooLarge},
	"nul-is-a-character":   {stream: "data: \x00\n\n", events: "=\x00"},
	"colon-in-value":       {stream: "data: a: b\n\n", events: "=a: b"},
	"lone-carriage-at-end": {stream: "data: a\n\r", events: "=a"},
}

// TestParser_reads_pieces reads each stream in pieces of each size.
func TestParser_reads_pieces(t *testing.T) {
	for name, test := range streams {
		t.Run(name, func(t *testing.T) {
			for n := 1; n <= max(len(test.stream), 1); n++ {
				events, incomplete, err := read(test.stream, n)
				if got := strings.Join(events, "|"); got != test.events {
					t.Fatalf("pieces of %d bytes: events %q, want %q", n, got, test.events)
				}
				if incomplete != test.incomplete {
					t.Fatalf("pieces of %d bytes: incomplete is %t, want %t", n, incomplete, test.incomplete)
				}
				if !errors.Is(err, test.err) {
					t.Fatalf("pieces of %d bytes: error %v, want %v", n, err, test.err)
				}
			}
		})
	}
}

func TestParser_error_of_handler_ends_the_stream(t *testing.T) {
	failed := errors.New("failed")
	calls := 0
	p := sse.NewParser(limit, func(sse.Event) error { calls++; return failed })
	defer p.Release()
	if n, err := p.Write([]byte("data: a\n\ndata: b\n\n")); n != len("data: a\n\n") || !errors.Is(err, failed) {
		t.Errorf("the first write returns %d and %v", n, err)
	}
	if _, err := p.Write([]byte("data: c\n\n")); !errors.Is(err, failed) {
		t.Errorf("the second write returns %v", err)
	}
	if calls != 1 {
		t.Errorf("the handler got %d events, want 1", calls)
	}
}

func TestParser_limit_is_that_of_buffers(t *testing.T) {
	if _, _, err := read(strings.Repeat("x", 100), 7); !errors.Is(err, buffer.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

func TestLineParser_reads_lines(t *testing.T) {
	var lines []string
	p := sse.NewLineParser(limit, func(e sse.Event) error { lines = append(lines, string(e.Data)); return nil })
	defer p.Release()
	if _, err := p.Write([]byte("\xef\xbb\xbf{}\r\n\n[1,\r2]\n3")); err != nil {
		t.Fatal(err)
	}
	if incomplete, err := p.Finish(); incomplete || err != nil {
		t.Errorf("the end is incomplete (%t), error %v", incomplete, err)
	}
	if got := strings.Join(lines, "|"); got != "{}\r||[1,\r2]|3" {
		t.Errorf("got %q", got)
	}
}

func TestEvents_reads_until_the_end(t *testing.T) {
	var got []string
	for e, err := range sse.Events(iotest.OneByteReader(strings.NewReader("data: a\n\ndata: b\n\ndata: c")), limit) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(e.Data))
	}
	if strings.Join(got, "|") != "a|b" {
		t.Errorf("got %q", got)
	}
}

func TestEvents_stops_with_its_reader(t *testing.T) {
	n := 0
	for range sse.Events(strings.NewReader("data: a\n\ndata: b\n\n"), limit) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("got %d events", n)
	}
}

func TestEvents_error_is_the_last_pair(t *testing.T) {
	broken := errors.New("broken")
	var last error
	events := 0
	for _, err := range sse.Events(io.MultiReader(strings.NewReader("data: a\n\n"), iotest.ErrReader(broken)), limit) {
		if last = err; err == nil {
			events++
		}
	}
	if events != 1 || !errors.Is(last, broken) {
		t.Errorf("got %d events and %v", events, last)
	}
}

func TestAppendEvent_is_read_again(t *testing.T) {
	for _, data := range []string{"", "a", "a\nb", "\n", ": x", " a"} {
		encoded := sse.AppendEvent(nil, "x", "7", []byte(data))
		events, incomplete, err := read(string(encoded), len(encoded))
		if err != nil || incomplete || strings.Join(events, "|") != "x="+data {
			t.Errorf("%q is encoded as %q and read as %q, error %v", data, encoded, events, err)
		}
	}
	if got := string(sse.AppendEvent(nil, "", "", []byte("a"))); got != "data: a\n\n" {
		t.Errorf("without a name: %q", got)
	}
	if got := string(sse.AppendEvent(nil, "n", "1", []byte("a\rb"))); got != "event: n\nid: 1\ndata: a\ndata: b\n\n" {
		t.Errorf("with a carriage return: %q", got)
	}
}

func TestWriter_sends_the_header_with_the_first_event(t *testing.T) {
	w := httptest.NewRecorder()
	events := sse.NewWriter(w, sse.MaxWriteWait)
	if events.IsOpen() || w.Header().Get("Content-Type") != "" {
		t.Error("the stream is open before the first event")
	}
	if err := events.Send([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if !events.IsOpen() || !w.Flushed {
		t.Errorf("open: got %t, want true; flushed: got %t, want true", events.IsOpen(), w.Flushed)
	}
	if got, want := [...]string{w.Header().Get("Content-Type"), w.Body.String()}, [...]string{"text/event-stream", "event: message\ndata: {}\n\n"}; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWriter_fails_after_Close(t *testing.T) {
	w := httptest.NewRecorder()
	events := sse.NewWriter(w, sse.MaxWriteWait)
	events.Close()
	if events.Open() == nil || events.Send([]byte("{}")) == nil || events.Comment() == nil {
		t.Error("a closed stream has been written to")
	}
	if w.Body.Len() > 0 {
		t.Errorf("got %q", w.Body)
	}
}

// brokenWriter is a connection that the client has closed.
type brokenWriter struct {
	*httptest.ResponseRecorder
	writes int
}

func (b *brokenWriter) Write([]byte) (int, error) {
	b.writes++
	return 0, io.ErrClosedPipe
}

func TestWriter_closes_after_an_error(t *testing.T) {
	w := &brokenWriter{ResponseRecorder: httptest.NewRecorder()}
	events := sse.NewWriter(w, sse.MaxWriteWait)
	for range 3 {
		if events.Send([]byte("{}")) == nil {
			t.Error("no error")
		}
	}
	if w.writes != 1 {
		t.Errorf("%d writes, want 1", w.writes)
	}
}

func TestWriter_keeps_a_stream_alive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		events := sse.NewWriter(w, sse.MaxWriteWait)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			events.KeepAlive(ctx, time.Minute)
		}()
		time.Sleep(2*time.Minute + time.Second)
		cancel()
		<-ended
		if w.Body.String() != ":\n\n:\n\n" {
			t.Errorf("got %q", w.Body)
		}
	})
}

// FuzzParser reads the same stream whole and byte by byte.
func FuzzParser(f *testing.F) {
	for _, test := range streams {
		f.Add([]byte(test.stream))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, incomplete, err := read(string(stream), len(stream)+1)
		bytewise, bytewiseIncomplete, bytewiseErr := read(string(stream), 1)
		if (err == nil) != (bytewiseErr == nil) || incomplete != bytewiseIncomplete || strings.Join(whole, "|") != strings.Join(bytewise, "|") {
			t.Errorf("whole %q (%t, %v), bytewise %q (%t, %v)", whole, incomplete, err, bytewise, bytewiseIncomplete, bytewiseErr)
		}
	})
}
