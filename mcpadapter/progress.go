package mcpadapter

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/tool"
)

const (
	maxProgressToken   = 1 << 10 // bytes; each notification repeats the token
	maxProgressMessage = 4 << 10 // bytes

	// progressEpsilon is the amount by which progress increases for an event that carries only a message.
	// It is too small to be mistaken for real progress.
	progressEpsilon = 1e-6
)

// logInfo is the level of log events without a level. logWarning is the level of this server's own
// messages.
const (
	logInfo    logLevel = 2
	logWarning logLevel = 4
)

// logEmergency is the highest level. A client that does not want it wants no log messages.
const logEmergency logLevel = 8

// progressToken returns the token with which the client requested progress notifications (MCP,
// Progress). It returns nil if there is none or if they cannot be sent.
func (x *exchange) progressToken() jsontext.Value {
	if x.channel == nil || len(x.params.meta) == 0 {
		return nil
	}
	token := wire.MemberOf(x.params.meta, "progressToken")
	if kind := token.Kind(); kind != '"' && kind != '0' || len(token) > maxProgressToken {
		return nil
	}
	return token
}

// withProgress returns a context whose calls report their events to the client. It returns ctx if the
// client wants no events or cannot receive them.
func (x *exchange) withProgress(ctx context.Context) context.Context {
	if x.channel == nil || x.progressToken() == nil && !x.logs(logEmergency) {
		return ctx
	}
	x.reporter = progressReporter{
		x:      x,
		latest: math.Inf(-1),
		logs:   rateLimit{burst: maxLogBurst, interval: logInterval},
	}
	return tool.ContextWithListener(ctx, x.reporter.report)
}

// A teller forwards the events of one request to the client as log messages and progress
// notifications. It keeps progress increasing over all calls that the request makes, because MCP
// requires that.
type progressReporter struct {
	x            *exchange
	latest       float64        // progress value of the last notification
	count        float64        // last value that the stream itself reported
	messageCount int            // message-only notifications since then
	total        jsontext.Value // total of the last notification; nil for none

	sender *latestOnly // for progress; nil before the first one
	logs   rateLimit

	omitted int // number of log messages dropped by the rate limit
}

// stop ends the forwarding. It sends the last progress notification and the number of omitted log
// messages. If the client has canceled the call, it sends nothing.
func (t *progressReporter) stop(canceled bool) {
	if t.x == nil {
		return // no events are forwarded
	}
	if t.sender != nil {
		t.sender.stop(canceled)
	}
	if t.omitted > 0 && !canceled {
		t.x.log(logWarning, "", fmt.Appendf(nil, `"%d log messages of this call were omitted: they came too fast"`, t.omitted))
	}
	*t = progressReporter{}
}

// report forwards one event of a call. Log messages beyond the rate limit are counted and dropped.
func (t *progressReporter) report(e tool.Event) {
	switch e.Kind {
	case tool.EventLog:
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
			data = wire.AppendString(nil, []byte(data)) // send ambiguous JSON as a string
		}
		t.x.log(level, e.Logger, data)
	case tool.EventProgress, tool.EventContent:
		t.progress(&e)
	}
}

// nextProgress sets the progress value of an event that carries only a message. MCP requires progress to
// increase with every notification (MCP, Progress), so the event gets the last reported value plus a
// small multiple of progressEpsilon. If the new value exceeds the total, the total is omitted.
func (t *progressReporter) nextProgress(e *tool.Event) {
	if e.Progress != nil || e.Message == "" || !t.x.version.SupportsProgressMessage() || math.IsInf(t.latest, 0) {
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
func (t *progressReporter) progress(e *tool.Event) {
	token := t.x.progressToken()
	if token == nil {
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
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), token...)
	b = append(append(b, `,"progress":`...), e.Progress...)
	if e.Total.Kind() == '0' {
		b = append(append(b, `,"total":`...), e.Total...)
	}
	if e.Message != "" && t.x.version.SupportsProgressMessage() {
		b = wire.AppendString(append(b, `,"message":`...), text.Cut(e.Message, maxProgressMessage))
	}
	if t.sender == nil {
		t.sender = &latestOnly{out: t.x.channel, limit: rateLimit{burst: maxProgressBurst, interval: progressInterval}}
	}
	t.sender.offer(append(b, "}}"...))
}
