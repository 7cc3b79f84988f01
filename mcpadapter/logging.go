package mcpadapter

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/internal/session"
	"github.com/fairwayhq/fairway/tools"
)

// defaultLogLevel applies to clients that have not called logging/setLevel. In revisions before
// 2026-07-28 the server chooses the level for them.
const defaultLogLevel protocol.Level = 2

// setLevel serves logging/setLevel.
func setLevel(q *request, w *response) *protocol.Fault {
	level := protocol.LevelOf(strictjson.Text(strictjson.MemberOf(q.params.raw, "level")))
	if level == 0 {
		return protocol.BadParams("params.level must be " + protocol.LevelNames)
	}
	if q.state != nil {
		q.state.LogLevel.Store(uint32(level))
	}
	w.empty()
	return nil
}

// callEvents sends the log messages and the progress of a tool call to the client.
type callEvents struct {
	call     *toolCall
	channel  protocol.Channel   // nil if the client can receive no events
	state    *session.State     // nil without a session
	reporter *protocol.Reporter // forwards the events; nil before the first one
}

// Logs reports whether the client wants log messages of the level. From 2026-07-28 on, each request
// states the level; without one, the client gets no log messages.
func (l *callEvents) Logs(level protocol.Level) bool {
	if l.channel == nil || level == 0 {
		return false
	}
	if l.call.version.Stateless() {
		wanted := protocol.LevelOf(strictjson.Text(strictjson.MemberOf(l.call.meta, protocol.MetaLogLevel)))
		return wanted != 0 && level >= wanted
	}
	wanted := defaultLogLevel
	if l.state != nil {
		if level := l.state.LogLevel.Load(); level != 0 {
			wanted = protocol.Level(level)
		}
	}
	return level >= wanted
}

// Log sends a log message to the client if the client wants that level. data is JSON.
func (l *callEvents) Log(level protocol.Level, logger string, data jsontext.Value) {
	if !l.Logs(level) {
		return
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`), level.String()...)
	b = append(b, '"')
	if logger != "" {
		b = strictjson.AppendString(append(b, `,"logger":`...), logger)
	}
	b = append(append(append(b, `,"data":`...), data...), "}}"...)
	_ = l.channel.Send(b) // a client that has disconnected needs no log messages
}

// progressToken returns the token with which the client requested progress notifications (MCP,
// Progress). It returns nil if there is none or if they cannot be sent.
func (l *callEvents) progressToken() jsontext.Value {
	if l.channel == nil || len(l.call.meta) == 0 {
		return nil
	}
	token := strictjson.MemberOf(l.call.meta, "progressToken")
	if kind := token.Kind(); kind != '"' && kind != '0' || len(token) > protocol.MaxProgressToken {
		return nil
	}
	return token
}

// Listener returns the function that reports the events of the tool call to the client. It returns nil if
// the client wants no events. It implements tools.ListenerSource.
func (l *callEvents) Listener() func(tools.Event) {
	if l.reporter == nil {
		token := l.progressToken()
		if token == nil && !l.Logs(protocol.LevelEmergency) {
			return nil
		}
		l.reporter = protocol.NewReporter(l.channel, l, token, l.call.version.SupportsProgressMessage())
	}
	return l.reporter.Report
}
