package mcpadapter

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/internal/stream"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// defaultLogLevel applies to clients that have not called logging/setLevel. In revisions before
// 2026-07-28 the server chooses the level for them.
const defaultLogLevel stream.Level = 2

// levelNames lists the levels for error messages.
const levelNames = "one of debug, info, notice, warning, error, critical, alert and emergency"

// checkLogLevel returns a fault for an unknown log level (MCP 2026-07-28, Logging, Error Handling).
// Null counts as absent.
func checkLogLevel(level jsontext.Value) *jsonrpc.Fault {
	switch kind := level.Kind(); {
	case kind == 0, kind == 'n', stream.LevelOf(wire.Text(level)) != 0:
		return nil
	case kind == '"':
		return badMeta(metaLogLevel, levelNames+", not "+text.Cut(string(level), text.MaxQuoted))
	default:
		return badMeta(metaLogLevel, levelNames+", not "+wire.KindName(kind))
	}
}

// setLevel serves logging/setLevel.
func (x *exchange) setLevel() *jsonrpc.Fault {
	level := stream.LevelOf(wire.Text(wire.MemberOf(x.params.raw, "level")))
	if level == 0 {
		return jsonrpc.BadParams("params.level must be " + levelNames)
	}
	if x.state != nil {
		x.state.SetLogLevel(level)
	}
	x.out.B = append(x.beginResult(), "}}"...)
	return nil
}

// Logs reports whether the client wants log messages of the level. From 2026-07-28 on each request
// states the level, and without one the client gets no log messages.
func (x *exchange) Logs(level stream.Level) bool {
	if x.channel == nil || level == 0 {
		return false
	}
	if x.version.Stateless() {
		wanted := stream.LevelOf(wire.Text(wire.MemberOf(x.params.meta, metaLogLevel)))
		return wanted != 0 && level >= wanted
	}
	wanted := defaultLogLevel
	if x.state != nil {
		if level := x.state.LogLevel(); level != 0 {
			wanted = level
		}
	}
	return level >= wanted
}

// Log sends a log message to the client if the client wants that level. data is JSON.
func (x *exchange) Log(level stream.Level, logger string, data jsontext.Value) {
	if !x.Logs(level) {
		return
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`), level.String()...)
	b = append(b, '"')
	if logger != "" {
		b = wire.AppendString(append(b, `,"logger":`...), logger)
	}
	b = append(append(append(b, `,"data":`...), data...), "}}"...)
	_ = x.channel.Send(b) // a client that has disconnected needs no log messages
}

// progressToken returns the token with which the client requested progress notifications (MCP,
// Progress). It returns nil if there is none or if they cannot be sent.
func (x *exchange) progressToken() jsontext.Value {
	if x.channel == nil || len(x.params.meta) == 0 {
		return nil
	}
	token := wire.MemberOf(x.params.meta, "progressToken")
	if kind := token.Kind(); kind != '"' && kind != '0' || len(token) > stream.MaxProgressToken {
		return nil
	}
	return token
}

// withProgress returns a context whose calls report their events to the client. It returns ctx if the
// client wants no events or cannot receive them.
func (x *exchange) withProgress(ctx context.Context) context.Context {
	if x.channel == nil || x.progressToken() == nil && !x.Logs(stream.LevelEmergency) {
		return ctx
	}
	x.reporter = stream.NewReporter(x.channel, x, x.progressToken(), x.version.SupportsProgressMessage())
	return tool.ContextWithListener(ctx, x.reporter.Report)
}
