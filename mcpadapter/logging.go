package mcpadapter

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// A logLevel is the severity of a log message (RFC 5424, as in MCP, Logging); 0 is
// none of them.
type logLevel uint8

var logLevels = [...]string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// defaultLogLevel holds for clients that have not said what they want, in the
// revisions in which that means that the server decides.
const defaultLogLevel logLevel = 2

func logLevelOf(name string) logLevel {
	for level := 1; level < len(logLevels); level++ {
		if logLevels[level] == name {
			return logLevel(level)
		}
	}
	return 0
}

// levelNames lists the levels for people.
const levelNames = "one of debug, info, notice, warning, error, critical, alert and emergency"

// checkLogLevel refuses a request that asks for the log from a level on that there
// is not (MCP 2026-07-28, Logging, Error Handling). Null counts as absent.
func checkLogLevel(level jsontext.Value) *fault {
	switch kind := level.Kind(); {
	case kind == 0, kind == 'n', logLevelOf(text(level)) != 0:
		return nil
	case kind == '"':
		return badMeta(metaLogLevel, levelNames+", not "+clip(string(level), maxQuoted))
	default:
		return badMeta(metaLogLevel, levelNames+", not "+wire.KindName(kind))
	}
}

// setLevel answers logging/setLevel.
func (x *exchange) setLevel() *fault {
	level := logLevelOf(text(member(x.params.raw, "level")))
	if level == 0 {
		return badParams("params.level must be " + levelNames)
	}
	if x.live != nil {
		x.live.mu.Lock()
		x.live.level = level
		x.live.mu.Unlock()
	}
	x.out.B = append(x.begin(), "}}"...)
	return nil
}

// logs reports whether the client wants log messages of the level. Since
// 2026-07-28 each request says so itself, and without a word there are none.
func (x *exchange) logs(level logLevel) bool {
	if x.channel == nil || level == 0 {
		return false
	}
	if x.version.selfDescribing() {
		wanted := logLevelOf(text(member(x.params.meta, metaLogLevel)))
		return wanted != 0 && level >= wanted
	}
	wanted := defaultLogLevel
	if x.live != nil {
		x.live.mu.Lock()
		if x.live.level != 0 {
			wanted = x.live.level
		}
		x.live.mu.Unlock()
	}
	return level >= wanted
}

// log sends a log message to the client if it wants those of the level. Data is
// JSON.
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
	_ = x.channel.send(b) // whoever is gone needs no log
}

// member returns the member of a JSON object, nil if there is none.
func member(object jsontext.Value, name string) jsontext.Value {
	if object.Kind() != '{' {
		return nil
	}
	for walk := wire.Into(object); walk.Next(); {
		if walk.Is(name) {
			return walk.Value
		}
	}
	return nil
}
