package stream

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// maxDepth bounds the nesting of JSON in a stream. Deeper JSON is treated as text.
const maxDepth = 1000

// name is the name of an event, reduced to the cases that are handled differently.
type name int

const (
	unnamed name = iota // the event's value determines its kind
	named               // any other name: the event is content
	namedProgress
	namedLog
	namedResult
	namedMCPResult
)

func nameOf(value []byte) name {
	switch string(value) {
	case "", "message":
		return unnamed
	case "progress":
		return namedProgress
	case "log":
		return namedLog
	case "result":
		return namedResult
	case "mcp-result":
		return namedMCPResult
	}
	return named
}

// value is the data of an event. The members that determine the kind of the event
// are parsed; the rest is not.
type value struct {
	text    []byte // UTF-8
	isJSON  bool
	members int // number of members, if it is an object

	kind, progress, total, message, level, logger, data, result jsontext.Value
}

func readValue(data []byte) value {
	v := value{text: text(data)}
	trimmed := bytes.TrimSpace(v.text)
	switch {
	case len(trimmed) == 0:
	case trimmed[0] != '{':
		v.isJSON = wire.Valid(trimmed)
	case wire.CheckDepth(trimmed, maxDepth) == nil:
		v.isJSON = wire.Split(trimmed, v.member) == nil
	}
	if !v.isJSON {
		return value{text: v.text}
	}
	return v
}

func (v *value) member(name, value jsontext.Value) {
	v.members++
	switch string(name) {
	case `"type"`:
		v.kind = value
	case `"progress"`:
		v.progress = value
	case `"total"`:
		v.total = value
	case `"message"`:
		v.message = value
	case `"level"`:
		v.level = value
	case `"logger"`:
		v.logger = value
	case `"data"`:
		v.data = value
	case `"result"`:
		v.result = value
	}
}

// name returns the kind of event that the value describes.
func (v *value) name() name {
	switch string(v.kind) {
	case `"progress"`:
		return namedProgress
	case `"log"`:
		return namedLog
	case `"result"`:
		if v.result != nil {
			return namedResult
		}
	case `"mcp-result"`:
		if v.result.Kind() == '{' {
			return namedMCPResult
		}
	}
	if v.looksLikeProgress() {
		return namedProgress
	}
	if v.looksLikeLog() {
		return namedLog
	}
	return named
}

// looksLikeProgress reports whether the value is an object with a "progress" number
// and no members other than those of a progress event.
func (v *value) looksLikeProgress() bool {
	return v.progress.Kind() == '0' &&
		(v.total == nil || v.total.Kind() == '0') &&
		(v.message == nil || v.message.Kind() == '"') &&
		v.members == 1+present(v.total)+present(v.message)
}

// looksLikeLog reports whether the value is an object with "level" and "data" and
// no members other than those of a log event.
func (v *value) looksLikeLog() bool {
	level := unquoted(v.level)
	return v.data != nil && level != "" && level == levelOf(level) &&
		(v.logger == nil || v.logger.Kind() == '"') &&
		v.members == 2+present(v.logger)
}

func present(value jsontext.Value) int {
	if value == nil {
		return 0
	}
	return 1
}

// event classifies one event and handles it.
func (r *Reducer) event(as name, data []byte) error {
	if as == namedResult || as == namedMCPResult {
		return r.resultData(as, data)
	}
	v := readValue(data)
	byValue := as == unnamed
	if byValue {
		as = v.name()
	}
	switch as {
	case namedProgress:
		return r.progress(&v)
	case namedLog:
		return r.log(&v)
	case namedResult, namedMCPResult:
		return r.resultData(as, v.result)
	}
	return r.content(&v)
}

// resultData handles the data of a result event.
func (r *Reducer) resultData(as name, data []byte) error {
	data = text(data)
	switch {
	case as == namedMCPResult:
		return r.settle(data, mediaMCP)
	case wire.Valid(data):
		return r.settle(data, mediaJSON)
	}
	return r.settle(data, mediaText)
}

// content handles an event that is a part of the response. An event without data
// only keeps the connection alive and is ignored.
func (r *Reducer) content(v *value) error {
	if len(v.text) == 0 {
		return nil
	}
	if err := r.keep(v.text, v.isJSON); err != nil {
		return err
	}
	r.steps++
	if r.options.Listener != nil {
		r.tellProgress(Event{Kind: Content, Data: v.shown(v.text)})
	}
	return nil
}

// tellProgress reports an event to the listener. If the stream sends no progress
// numbers, the event gets the number of steps so far.
func (r *Reducer) tellProgress(e Event) {
	if !r.counts {
		e.Progress = number(r.steps)
	}
	r.options.Listener(e)
}

// progress handles a progress event: an object, a bare number or a bare message.
func (r *Reducer) progress(v *value) error {
	if err := r.tell(len(v.text)); err != nil {
		return err
	}
	e := Event{Kind: Progress}
	switch {
	case v.members > 0:
		e.Message = unquoted(v.message)
		if v.total.Kind() == '0' {
			e.Total = v.total
		}
		if v.progress.Kind() == '0' {
			e.Progress = v.progress
		}
	case !v.isJSON:
		e.Message = string(v.text)
	default:
		switch alone := jsontext.Value(bytes.TrimSpace(v.text)); alone.Kind() {
		case '0':
			e.Progress = alone
		case '"':
			e.Message = unquoted(alone)
		}
	}
	if e.Progress != nil {
		r.counts = true
	} else {
		r.steps++
	}
	if r.options.Listener != nil {
		r.tellProgress(e)
	}
	return nil
}

// log handles a log event: an object, or a bare value to log.
func (r *Reducer) log(v *value) error {
	if err := r.tell(len(v.text)); err != nil {
		return err
	}
	if r.options.Listener == nil {
		return nil
	}
	e := Event{Kind: Log, Level: levelOf(unquoted(v.level)), Logger: unquoted(v.logger)}
	if e.Level == "" {
		e.Level = "info"
	}
	logged := v.text
	if v.data != nil {
		logged = v.data
	}
	e.Data = v.shown(logged)
	r.options.Listener(e)
	return nil
}

// maxShownDepth bounds the nesting of reported data. The data becomes part of a
// message, and that message must not nest deeper than wire.MaxDepth.
const maxShownDepth = wire.MaxDepth / 2

// shown returns a part of the value as JSON on one line, so that it can be embedded
// in a message.
func (v *value) shown(part []byte) jsontext.Value {
	if !v.isJSON || wire.CheckDepth(part, maxShownDepth) != nil {
		return wire.AppendString(make([]byte, 0, len(part)+2), part)
	}
	shown := jsontext.Value(bytes.TrimSpace(part))
	if bytes.ContainsAny(shown, "\r\n") {
		shown = shown.Clone()
		_ = shown.Compact(jsontext.AllowDuplicateNames(true)) // the value is known to be valid
	}
	return shown
}

func number(n int) jsontext.Value {
	return strconv.AppendInt(nil, int64(n), 10)
}

// unquoted returns the text of a JSON string, or "" for any other value.
func unquoted(value jsontext.Value) string {
	if value.Kind() != '"' {
		return ""
	}
	plain, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return ""
	}
	return string(plain)
}

// levelOf maps a logger's level name to the RFC 5424 level in MCP's spelling. It
// returns "" for unknown names.
func levelOf(word string) string {
	switch word {
	case "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency":
		return word
	case "trace":
		return "debug"
	case "warn":
		return "warning"
	case "fatal", "panic":
		return "critical"
	}
	return ""
}
