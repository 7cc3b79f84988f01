package mcpadapter

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp"
)

const (
	maxProgressToken   = 1 << 10 // bytes; each notification repeats it
	maxProgressMessage = 4 << 10 // bytes

	// wordStep is by how much progress grows with words that count nothing: too
	// little to be taken for progress, and few digits to read.
	wordStep = 1e-6
)

// logInfo is the level of a log event that names none, logWarning that of messages of
// this server.
const (
	logInfo    logLevel = 2
	logWarning logLevel = 4
)

// logEmergency is the highest level: who does not want it wants no logs.
const logEmergency logLevel = 8

// progressToken returns the token for which the client wants to hear of progress,
// nil if it does not or cannot.
func (x *exchange) progressToken() jsontext.Value {
	if x.channel == nil || len(x.params.meta) == 0 {
		return nil
	}
	token := member(x.params.meta, "progressToken")
	if kind := token.Kind(); kind != '"' && kind != '0' || len(token) > maxProgressToken {
		return nil
	}
	return token
}

// hearing returns a context for a call of whose events the client is told, where
// it can be and wants to.
func (x *exchange) hearing(ctx context.Context) context.Context {
	if x.channel == nil || x.progressToken() == nil && !x.logs(logEmergency) {
		return ctx
	}
	x.teller = teller{
		x:      x,
		latest: math.Inf(-1),
		sender: &latestOnly{out: x.channel, limit: rateLimit{burst: maxProgressBurst, interval: progressInterval}},
		logs:   rateLimit{burst: maxLogBurst, interval: logInterval},
	}
	return ocp.ContextWithListener(ctx, x.teller.tell)
}

// A teller passes the events of one request on to the client: log messages, and
// progress that must grow with each notification, over all calls that the request
// makes.
type teller struct {
	x      *exchange
	latest float64        // progress that was told
	count  float64        // of it, what the stream has counted; the rest is for words
	words  int            // that were told since
	total  jsontext.Value // that was told with it; nil for none

	sender *latestOnly // of progress; nil if nothing is told
	logs   rateLimit

	omitted int // log messages, for the rate
}

// stop ends what is told of a call: the last progress is sent, and how many log
// messages were omitted. A client that has canceled the call is told nothing more.
func (t *teller) stop(canceled bool) {
	if t.sender == nil {
		return
	}
	t.sender.stop(canceled)
	if t.omitted > 0 && !canceled {
		t.x.log(logWarning, "", fmt.Appendf(nil, `"%d log messages of this call were omitted: they came too fast"`, t.omitted))
	}
	*t = teller{}
}

func (t *teller) tell(e ocp.Event) {
	switch e.Kind {
	case ocp.EventLog:
		level := logLevelOf(e.Level)
		if level == 0 {
			level = logInfo
		}
		if !t.x.logs(level) {
			return
		}
		if !t.logs.take(time.Now()) {
			t.omitted++
			return
		}
		data := e.Data
		if !wire.Unambiguous(data) {
			data = wire.AppendString(nil, []byte(data)) // to be read, not taken apart
		}
		t.x.log(level, e.Logger, data)
	case ocp.EventProgress, ocp.EventContent:
		t.progress(&e)
	}
}

// goOn gives an event that has words and no number, of a stream that counts, a number
// a little over the one before: progress must grow with each notification, and what
// the stream counts has not. A total that this would pass is not told.
func (t *teller) goOn(e *ocp.Event) {
	if e.Progress != nil || e.Message == "" || !t.x.version.explainsProgress() || math.IsInf(t.latest, 0) {
		return
	}
	t.words++
	next := t.count + float64(t.words)*wordStep
	if next <= t.latest {
		next = math.Nextafter(t.latest, math.Inf(1)) // the count is that large
	}
	if math.IsInf(next, 1) {
		return // and has no next
	}
	e.Progress = appendNumber(nil, next)
	if e.Total == nil && len(t.total) > 0 {
		e.Total = t.total
	}
	if total, err := strconv.ParseFloat(string(e.Total), 64); err == nil && next > total {
		e.Total = nil
	}
}

// appendNumber appends a number without exponent, unless that would be long.
func appendNumber(b []byte, n float64) []byte {
	const most = 1e15
	if math.Abs(n) < most {
		return strconv.AppendFloat(b, n, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, n, 'g', -1, 64)
}

// progress sends a notification if there is progress.
func (t *teller) progress(e *ocp.Event) {
	token := t.x.progressToken()
	if token == nil {
		return
	}
	counted := e.Progress != nil
	t.goOn(e)
	value, err := strconv.ParseFloat(string(e.Progress), 64)
	if err != nil || value <= t.latest {
		return
	}
	t.latest = value
	if counted {
		t.count, t.words = value, 0
	}
	t.total = append(t.total[:0], e.Total...)
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), token...)
	b = append(append(b, `,"progress":`...), e.Progress...)
	if e.Total.Kind() == '0' {
		b = append(append(b, `,"total":`...), e.Total...)
	}
	if e.Message != "" && t.x.version.explainsProgress() {
		b = wire.AppendString(append(b, `,"message":`...), clip(e.Message, maxProgressMessage))
	}
	t.sender.offer(append(b, "}}"...))
}
