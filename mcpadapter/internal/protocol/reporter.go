package protocol

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

const (
	MaxProgressToken   = 1 << 10 // bytes; each notification repeats the token
	maxProgressMessage = 4 << 10 // bytes

	// progressEpsilon is the amount by which progress increases for an event that carries only a message.
	// It is too small to be mistaken for real progress.
	progressEpsilon = 1e-6
)

// A Logger sends log messages to the client of one request.
type logger interface {
	// Logs reports whether the client wants log messages of the level.
	Logs(level Level) bool

	// Log sends a log message if the client wants that level. data is JSON.
	Log(level Level, name string, data jsontext.Value)
}

// A Reporter forwards the events of one request to the client as log messages and progress
// notifications. It keeps progress increasing over all calls that the request makes, because MCP
// requires that.
type Reporter struct {
	out          Channel
	logger       logger
	token        jsontext.Value // with which the client requested progress; nil if it did not
	withMessages bool           // whether progress notifications can have messages
	latest       float64        // progress value of the last notification
	count        float64        // last value that the stream itself reported
	messageCount int            // message-only notifications since then
	total        jsontext.Value // total of the last notification; nil for none

	sender *latestOnly // for progress; nil before the first one
	logs   *rate.Limiter

	omitted int // number of log messages dropped by the rate limit
}

// NewReporter returns a Reporter that sends progress to out with the token, and log messages to the logger.
// A nil token means that the client wants no progress. withMessages says whether the revision allows
// messages in progress notifications.
func NewReporter(out Channel, to logger, token jsontext.Value, withMessages bool) *Reporter {
	return &Reporter{
		logger:       to,
		token:        token,
		withMessages: withMessages,
		latest:       math.Inf(-1),
		out:          out,
		logs:         rate.NewLimiter(rate.Every(LogInterval), MaxLogBurst),
	}
}

// Stop ends the forwarding. It sends the last progress notification and the number of omitted log
// messages. If the client has canceled the call, it sends nothing.
func (t *Reporter) Stop(canceled bool) {
	if t.sender != nil {
		t.sender.stop(canceled)
	}
	if t.omitted > 0 && !canceled {
		t.logger.Log(logWarning, "", fmt.Appendf(nil, `"%d log messages of this call were omitted: they came too fast"`, t.omitted))
	}
	*t = Reporter{}
}

// Report forwards one event of a call. Log messages beyond the rate limit are counted and dropped.
func (t *Reporter) Report(e tools.Event) {
	switch e.Kind {
	case tools.EventLog:
		level := cmp.Or(LevelOf(e.Level), logInfo)
		if !t.logger.Logs(level) {
			return
		}
		if !t.logs.Allow() {
			t.omitted++
			return
		}
		data := e.Data
		if !strictjson.Unambiguous(data) {
			data = strictjson.AppendString(nil, []byte(data)) // send ambiguous JSON as a string
		}
		t.logger.Log(level, e.Logger, data)
	case tools.EventProgress, tools.EventContent:
		t.progress(&e)
	}
}

// nextProgress sets the progress value of an event that carries only a message. MCP requires progress to
// increase with every notification (MCP, Progress), so the event gets the last reported value plus a
// small multiple of progressEpsilon. If the new value exceeds the total, the total is omitted.
func (t *Reporter) nextProgress(e *tools.Event) {
	if e.Progress != nil || e.Message == "" || !t.withMessages || math.IsInf(t.latest, 0) {
		return
	}
	t.messageCount++
	next := t.count + float64(t.messageCount)*progressEpsilon
	if next <= t.latest {
		next = math.Nextafter(t.latest, math.Inf(1)) // the count is so large that adding progressEpsilon does not change it
	}
	if math.IsInf(next, 1) {
		return // there is no larger number
	}
	e.Progress = appendNumber(nil, next)
	if e.Total == nil && len(t.total) > 0 {
		e.Total = t.total
	}
	if total, err := strconv.ParseFloat(string(e.Total), 64); err == nil && next > total {
		e.Total = nil
	}
}

// appendNumber appends a number without an exponent, unless it has very many digits.
func appendNumber(b []byte, n float64) []byte {
	const most = 1e15
	if math.Abs(n) < most {
		return strconv.AppendFloat(b, n, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, n, 'g', -1, 64)
}

// progress sends a notification if the progress value has increased.
func (t *Reporter) progress(e *tools.Event) {
	if t.token == nil {
		return
	}
	counted := e.Progress != nil
	t.nextProgress(e)
	value, err := strconv.ParseFloat(string(e.Progress), 64)
	if err != nil || value <= t.latest {
		return
	}
	t.latest = value
	if counted {
		t.count, t.messageCount = value, 0
	}
	t.total = append(t.total[:0], e.Total...)
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), t.token...)
	b = append(append(b, `,"progress":`...), e.Progress...)
	if e.Total.Kind() == '0' {
		b = append(append(b, `,"total":`...), e.Total...)
	}
	if e.Message != "" && t.withMessages {
		b = strictjson.AppendString(append(b, `,"message":`...), text.Cut(e.Message, maxProgressMessage))
	}
	if t.sender == nil {
		t.sender = &latestOnly{out: t.out, limit: rate.NewLimiter(rate.Every(ProgressInterval), MaxProgressBurst)}
	}
	t.sender.offer(append(b, "}}"...))
}
