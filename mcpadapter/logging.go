package mcpadapter

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
)

// A logLevel is the severity of a log message (RFC 5424; MCP, Logging). 0 is no level.
type logLevel uint8

var logLevels = [...]string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// defaultLogLevel applies to clients that have not called logging/setLevel. In revisions before
// 2026-07-28 the server chooses the level for them.
const defaultLogLevel logLevel = 2

// logLevelOf returns the level with that name, or 0.
func logLevelOf(name string) logLevel {
	for level := 1; level < len(logLevels); level++ {
		if logLevels[level] == name {
			return logLevel(level)
		}
	}
	return 0
}

// levelNames lists the levels for error messages.
const levelNames = "one of debug, info, notice, warning, error, critical, alert and emergency"

// checkLogLevel returns a fault for an unknown log level (MCP 2026-07-28, Logging, Error Handling).
// Null counts as absent.
func checkLogLevel(level jsontext.Value) *jsonrpc.Fault {
	switch kind := level.Kind(); {
	case kind == 0, kind == 'n', logLevelOf(wire.Text(level)) != 0:
		return nil
	case kind == '"':
		return badMeta(metaLogLevel, levelNames+", not "+text.Cut(string(level), text.MaxQuoted))
	default:
		return badMeta(metaLogLevel, levelNames+", not "+wire.KindName(kind))
	}
}

// setLevel serves logging/setLevel.
func (x *exchange) setLevel() *jsonrpc.Fault {
	level := logLevelOf(wire.Text(wire.MemberOf(x.params.raw, "level")))
	if level == 0 {
		return jsonrpc.BadParams("params.level must be " + levelNames)
	}
	if x.state != nil {
		x.state.mu.Lock()
		x.state.level = level
		x.state.mu.Unlock()
	}
	x.out.B = append(x.beginResult(), "}}"...)
	return nil
}

// logs reports whether the client wants log messages of the level. From 2026-07-28 on each request
// states the level, and without one the client gets no log messages.
func (x *exchange) logs(level logLevel) bool {
	if x.channel == nil || level == 0 {
		return false
	}
	if x.version.Stateless() {
		wanted := logLevelOf(wire.Text(wire.MemberOf(x.params.meta, metaLogLevel)))
		return wanted != 0 && level >= wanted
	}
	wanted := defaultLogLevel
	if x.state != nil {
		x.state.mu.Lock()
		if x.state.level != 0 {
			wanted = x.state.level
		}
		x.state.mu.Unlock()
	}
	return level >= wanted
}

// log sends a log message to the client if the client wants that level. data is JSON.
func (x *exchange) log(level logLevel, logger string, data jsontext.Value) {
	if !x.logs(level) {
		return
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"`), logLevels[level]...)
	b = append(b, '"')
	if logger != "" {
		b = wire.AppendString(append(b, `,"logger":`...), logger)
	}
	b = append(append(append(b, `,"data":`...), data...), "}}"...)
	_ = x.channel.send(b) // a client that has disconnected needs no log messages
}
