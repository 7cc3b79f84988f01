package mcpadapter

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/negotiation"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// defaultLogLevel applies to clients that have not called logging/setLevel. In revisions before
// 2026-07-28 the server chooses the level for them.
const defaultLogLevel stream.Level = 2

// A clientLog sends log messages and progress notifications to the client while a message is served.
type clientLog struct{ *message }

// setLevel serves logging/setLevel.
func (l clientLog) setLevel() *jsonrpc.Fault {
	level := stream.LevelOf(wire.Text(wire.MemberOf(l.params.raw, "level")))
	if level == 0 {
		return jsonrpc.BadParams("params.level must be " + stream.LevelNames)
	}
	if l.state != nil {
		l.state.SetLogLevel(level)
	}
	l.out.B = append(l.beginResult(), "}}"...)
	return nil
}

// Logs reports whether the client wants log messages of the level. From 2026-07-28 on, each request
// states the level; without one, the client gets no log messages.
func (l clientLog) Logs(level stream.Level) bool {
	if l.channel == nil || level == 0 {
		return false
	}
	if l.version.Stateless() {
		wanted := stream.LevelOf(wire.Text(wire.MemberOf(l.params.meta, negotiation.MetaLogLevel)))
		return wanted != 0 && level >= wanted
	}
	wanted := defaultLogLevel
	if l.state != nil {
		if level := l.state.LogLevel(); level != 0 {
			wanted = level
		}
	}
	return level >= wanted
}

// Log sends a log message to the client if the client wants that level. data is JSON.
func (l clientLog) Log(level stream.Level, logger string, data jsontext.Value) {
	if !l.Logs(level) {
		return
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`), level.String()...)
	b = append(b, '"')
	if logger != "" {
		b = wire.AppendString(append(b, `,"logger":`...), logger)
	}
	b = append(append(append(b, `,"data":`...), data...), "}}"...)
	_ = l.channel.Send(b) // a client that has disconnected needs no log messages
}

// progressToken returns the token with which the client requested progress notifications (MCP,
// Progress). It returns nil if there is none or if they cannot be sent.
func (l clientLog) progressToken() jsontext.Value {
	if l.channel == nil || len(l.params.meta) == 0 {
		return nil
	}
	token := wire.MemberOf(l.params.meta, "progressToken")
	if kind := token.Kind(); kind != '"' && kind != '0' || len(token) > stream.MaxProgressToken {
		return nil
	}
	return token
}

// Listener returns the function that reports the events of the tool call to the client. It returns nil if
// the client wants no events. It implements tool.ListenerSource.
func (l clientLog) Listener() func(tool.Event) {
	if l.reporter == nil {
		token := l.progressToken()
		if token == nil && !l.Logs(stream.LevelEmergency) {
			return nil
		}
		l.reporter = stream.NewReporter(l.channel, l, token, l.version.SupportsProgressMessage())
	}
	return l.reporter.Report
}
