package route

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/result"
)

// maxStreamTimeouts is the maximum duration of a streamed response, as a multiple of the tool
// call's timeout. The timeout itself limits how long the stream may be silent.
const maxStreamTimeouts = 10

// streamOptions configures how a tool call handles a streamed response. With the zero value, a stream
// is recorded like any other response.
type streamOptions struct {
	Timer   *time.Timer // ends the call; nil without a time limit
	Timeout time.Duration

	suppressEvents bool // see Recorder.SuppressEvents
}

// open returns the stream if rec's response is one, else nil. The response's header is
// complete at this point and has a Content-Type. A stream in a content coding is recorded like any other response,
// since inner requests do not accept one.
func (s *streamOptions) open(rec *Recorder) *recordedStream {
	contentType := rec.Headers["Content-Type"]
	if rec.Status >= http.StatusMultipleChoices {
		return nil
	}
	format := result.FormatOf(contentType[0])
	if format == 0 {
		return nil
	}
	if coding := rec.Headers.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil
	}
	options := result.StreamOptions{MaxContent: rec.Limit}
	if !s.suppressEvents {
		options.Listener = tools.ListenerFromContext(rec.callContext.Context)
	}
	begun := &recordedStream{Reducer: result.NewReducer(format, rec.Body, options), streamOptions: s, rec: rec}
	if s.Timer != nil {
		begun.end = time.Now().Add(maxStreamTimeouts * s.Timeout)
		begun.resetSilenceTimer()
	}
	return begun
}

// recordedStream is a response that is a stream.
type recordedStream struct {
	*result.Reducer
	*streamOptions
	rec *Recorder
	end time.Time // the time limit of the whole stream
}

// Write passes bytes to the stream's reader. The silence limit is suspended while the listener
// handles events, because that time is not the API's. If the stream cannot be read, Write ends the call.
func (s *recordedStream) Write(p []byte) (int, error) {
	if s.Timer != nil {
		s.Timer.Reset(time.Until(s.end))
		defer s.resetSilenceTimer()
	}
	n, err := s.Reducer.Write(p)
	if err == nil {
		return n, nil
	}
	if s.rec.TooLarge = errors.Is(err, buffer.ErrTooLarge); s.rec.TooLarge {
		err = errResponseTooLarge
	}
	s.rec.Release()
	s.rec.Fail(err)
	s.rec.cancel(err)
	return n, err
}

// resetSilenceTimer restarts the limit on how long the stream may be silent.
func (s *recordedStream) resetSilenceTimer() {
	s.Timer.Reset(min(s.Timeout, time.Until(s.end)))
}

// FinishStream replaces the recorded stream with its result.
func (r *Recorder) FinishStream() error {
	contentType, err := r.Stream.Finish()
	r.Stream = nil
	r.SendTo(nil, false)
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
