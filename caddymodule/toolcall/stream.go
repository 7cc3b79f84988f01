package toolcall

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/stream"
)

// maxStreamTimeouts is how many times its timeout a tool call may take whose
// answer streams: the timeout is then for how long nothing comes.
const maxStreamTimeouts = 10

// streams is what a tool call does with an answer that streams. The zero value does
// nothing.
type streams struct {
	ctx     context.Context // of the call; it may have a listener
	Timer   *time.Timer     // that ends the call; nil if nothing does
	Timeout time.Duration
}

// begin returns the stream that the answer of rec is, whose header has just been
// decided on; nil if it is none. A stream in a content coding is an answer like
// others: calls ask for none.
func (s *streams) begin(rec *Recorder) *streamed {
	contentType := rec.Headers["Content-Type"]
	if s.ctx == nil || len(contentType) == 0 || rec.Status >= http.StatusMultipleChoices {
		return nil
	}
	format := stream.FormatOf(contentType[0])
	if format == 0 {
		return nil
	}
	if coding := rec.Headers.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil
	}
	begun := &streamed{
		Reducer: stream.NewReducer(format, rec.Body, stream.Options{
			Listener:   ocp.ListenerFromContext(s.ctx),
			MaxContent: rec.limit,
		}),
		streams: s,
	}
	if s.Timer != nil {
		begun.end = time.Now().Add(maxStreamTimeouts * s.Timeout)
		begun.listen()
	}
	return begun
}

// streamed is an answer that streams.
type streamed struct {
	*stream.Reducer
	*streams
	end time.Time // when it takes too long altogether
}

// Write reads on. While the listener has the word, the API cannot be silent.
func (s *streamed) Write(p []byte) (int, error) {
	if s.Timer != nil {
		s.Timer.Reset(time.Until(s.end))
		defer s.listen()
	}
	return s.Reducer.Write(p)
}

// listen gives the API its time to say more.
func (s *streamed) listen() {
	s.Timer.Reset(min(s.Timeout, time.Until(s.end)))
}

// writeStream reads on in the stream, and ends the call if that cannot be read.
func (r *Recorder) writeStream(p []byte) (int, error) {
	n, err := r.Stream.Write(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, buffer.ErrTooLarge):
		r.exceed()
		return n, errAnswerTooLarge
	}
	r.Broken = err
	r.Drop()
	r.cancel(err)
	return n, err
}

// readStream reads all of source, of which each piece is read as soon as it is
// there.
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

// FinishStream makes of what is recorded the answer that the stream comes to.
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

// SaidAll reports whether the answer is a stream that has said its result: that
// it then broke off, or went on until its time was up, takes nothing from it.
func (r *Recorder) SaidAll() bool {
	return r.Stream != nil && r.Stream.Settled()
}
