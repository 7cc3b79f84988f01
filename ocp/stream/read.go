package stream

import (
	"bytes"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// maxDepth bounds the nesting of JSON in a stream. What nests deeper is text.
const maxDepth = 1000

// name is the name of an event, as far as it makes a difference.
type name int

const (
	unnamed name = iota // it is its value that decides
	named               // by a name of the API's own: content
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

// value is the data of an event, taken apart as far as that decides anything.
type value struct {
	text    []byte // UTF-8
	isJSON  bool
	members int // of an object

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

// name returns what the value says that its event is.
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

// looksLikeProgress reports whether the value is an object of progress and of
// nothing else.
func (v *value) looksLikeProgress() bool {
	return v.progress.Kind() == '0' &&
		(v.total == nil || v.total.Kind() == '0') &&
		(v.message == nil || v.message.Kind() == '"') &&
		v.members == 1+present(v.total)+present(v.message)
}

// looksLikeLog reports whether the value is an object of a log line and of
// nothing else.
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

// event takes one event.
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

// resultData takes the data of a result.
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

// content takes an event that is a part of the answer. One without any data keeps
// the connection alive and says nothing.
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

// tellProgress tells of a step, by its number if the API does not count itself.
func (r *Reducer) tellProgress(e Event) {
	if !r.counts {
		e.Progress = number(r.steps)
	}
	r.options.Listener(e)
}

// progress takes an event of progress: an object, a number alone or a message
// alone.
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

// log takes a line of the API's log: an object, or what is logged alone.
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

// maxShownDepth is how deeply what is told may nest, as it is told inside of a
// message that must not nest deeper than wire.MaxDepth.
const maxShownDepth = wire.MaxDepth / 2

// shown returns a part of the value as JSON that can stand in a message, on one
// line.
func (v *value) shown(part []byte) jsontext.Value {
	if !v.isJSON || wire.CheckDepth(part, maxShownDepth) != nil {
		return wire.AppendString(make([]byte, 0, len(part)+2), part)
	}
	shown := jsontext.Value(bytes.TrimSpace(part))
	if bytes.ContainsAny(shown, "\r\n") {
		shown = shown.Clone()
		_ = shown.Compact(jsontext.AllowDuplicateNames(true)) // it is valid
	}
	return shown
}

func number(n int) jsontext.Value {
	return strconv.AppendInt(nil, int64(n), 10)
}

// unquoted returns the text of a JSON string, "" of any other value.
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

// levelOf returns the level of RFC 5424 as MCP writes it, for the words that
// loggers have for them; "" for any other word.
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
