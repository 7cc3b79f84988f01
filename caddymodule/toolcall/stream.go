package toolcall

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp/stream"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// maxStreamTimeouts is the maximum duration of a streamed response, as a multiple of the tool
// call's timeout. The timeout itself limits how long the stream may be silent.
const maxStreamTimeouts = 10

// streamOptions configures how a tool call handles a streamed response. With the zero value, a stream
// is recorded like any other response.
type streamOptions struct {
	ctx     context.Context // context of the call; it may have a listener
	Timer   *time.Timer     // ends the call; nil without a time limit
	Timeout time.Duration
}

// open returns the stream if rec's response is one, else nil. The response's header is
// complete at this point and has a Content-Type. A stream in a content coding is recorded like any other response,
// since inner requests do not accept one.
func (s *streamOptions) open(rec *Recorder) *recordedStream {
	contentType := rec.Headers["Content-Type"]
	if rec.Status >= http.StatusMultipleChoices {
		return nil
	}
	format := stream.FormatOf(contentType[0])
	if format == 0 {
		return nil
	}
	if coding := rec.Headers.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil
	}
	begun := &recordedStream{
		Reducer: stream.NewReducer(format, rec.Body, stream.Options{
			Listener:   tool.ListenerFromContext(s.ctx),
			MaxContent: rec.limit,
		}),
		streamOptions: s,
	}
	if s.Timer != nil {
		begun.end = time.Now().Add(maxStreamTimeouts * s.Timeout)
		begun.resetSilenceTimer()
	}
	return begun
}

// recordedStream is a response that is a stream.
type recordedStream struct {
	*stream.Reducer
	*streamOptions
	end time.Time // the time limit of the whole stream
}

// Write passes bytes to the stream's reader. The silence limit is suspended while the listener
// handles events, because that time is not the API's.
func (s *recordedStream) Write(p []byte) (int, error) {
	if s.Timer != nil {
		s.Timer.Reset(time.Until(s.end))
		defer s.resetSilenceTimer()
	}
	return s.Reducer.Write(p)
}

// resetSilenceTimer restarts the limit on how long the stream may be silent.
func (s *recordedStream) resetSilenceTimer() {
	s.Timer.Reset(min(s.Timeout, time.Until(s.end)))
}

// writeStream passes bytes to the stream's reader. It ends the call if the stream cannot be
// read.
func (r *Recorder) writeStream(p []byte) (int, error) {
	n, err := r.Stream.Write(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, buffer.ErrTooLarge):
		r.abortTooLarge()
		return n, errResponseTooLarge
	}
	r.StreamErr = err
	r.Release()
	r.cancel(err)
	return n, err
}

// readStream reads source to its end and processes each piece as soon as it arrives.
func (r *Recorder) readStream(source io.Reader) (total int64, err error) {
	chunk := buffer.Get()
	defer buffer.Put(chunk)
	piece := chunk.B[:cap(chunk.B)]
	for {
		n, err := source.Read(piece)
		total += int64(n)
		if n > 0 {
			if _, err := r.Write(piece[:n]); err != nil {
				return total, err
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return total, nil
		default:
			return total, err
		}
	}
}

// FinishStream replaces the recorded stream with its result.
func (r *Recorder) FinishStream() error {
	contentType, err := r.Stream.Finish()
	r.Stream = nil
	if err != nil {
		return err
	}
	delete(r.Headers, "Content-Length")
	delete(r.Headers, "Content-Type")
	if contentType != "" {
		r.Headers["Content-Type"] = []string{contentType}
	}
	return nil
}

// StreamComplete reports whether the response is a stream whose result is complete. If so, the call
// succeeds even if the stream then breaks off or exceeds its time limit.
func (r *Recorder) StreamComplete() bool {
	return r.Stream != nil && r.Stream.Settled()
}
