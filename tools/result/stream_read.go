package result

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
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

func eventName(value []byte) name {
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

// value is the data of an event.
type value struct {
	text    []byte // UTF-8
	isJSON  bool
	members []strictjson.Member // if it is an object
}

func readValue(data []byte) value {
	v := value{text: eventText(data)}
	trimmed := bytes.TrimSpace(v.text)
	switch {
	case len(trimmed) == 0:
	case trimmed[0] != '{':
		v.isJSON = strictjson.Valid(trimmed)
	case strictjson.CheckDepth(trimmed, maxDepth) == nil:
		v.isJSON = strictjson.Split(trimmed, func(name, member jsontext.Value) {
			v.members = append(v.members, strictjson.Member{Name: strictjson.Text(name), Value: member})
		}) == nil
	}
	if !v.isJSON {
		return value{text: v.text}
	}
	return v
}

// member returns a member of an object, or nil.
func (v *value) member(name string) jsontext.Value {
	for _, m := range v.members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// name returns the kind of event that the value describes.
func (v *value) name() name {
	switch strictjson.Text(v.member("type")) {
	case "progress":
		return namedProgress
	case "log":
		return namedLog
	case "result":
		if v.member("result") != nil {
			return namedResult
		}
	case "mcp-result":
		if v.member("result").Kind() == '{' {
			return namedMCPResult
		}
	}
	level := strictjson.Text(v.member("level"))
	switch {
	case v.member("progress") != nil && v.isOnly(map[string]jsontext.Kind{"progress": '0', "total": '0', "message": '"'}):
		return namedProgress
	case v.member("data") != nil && level != "" && level == levelOf(level) && v.isOnly(map[string]jsontext.Kind{"level": '"', "logger": '"', "data": 0}):
		return namedLog
	}
	return named
}

// isOnly reports whether the value has no other members than these, of these kinds. 0 is any kind.
func (v *value) isOnly(kinds map[string]jsontext.Kind) bool {
	return !slices.ContainsFunc(v.members, func(m strictjson.Member) bool {
		kind, known := kinds[m.Name]
		return !known || kind != 0 && kind != m.Value.Kind()
	})
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
		return r.resultData(as, v.member("result"))
	}
	return r.content(&v)
}

// resultData handles the data of a result event.
func (r *Reducer) resultData(as name, data []byte) error {
	data = eventText(data)
	switch {
	case as == namedMCPResult:
		return r.settle(data, NativeType)
	case strictjson.Valid(data):
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
	case len(v.members) > 0:
		e.Message = strictjson.Text(v.member("message"))
		if total := v.member("total"); total.Kind() == '0' {
			e.Total = total
		}
		if progress := v.member("progress"); progress.Kind() == '0' {
			e.Progress = progress
		}
	case !v.isJSON:
		e.Message = string(v.text)
	default:
		switch alone := jsontext.Value(bytes.TrimSpace(v.text)); alone.Kind() {
		case '0':
			e.Progress = alone
		case '"':
			e.Message = strictjson.Text(alone)
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
	e := Event{Kind: Log, Level: cmp.Or(levelOf(strictjson.Text(v.member("level"))), "info"), Logger: strictjson.Text(v.member("logger"))}
	logged := v.text
	if data := v.member("data"); data != nil {
		logged = data
	}
	e.Data = v.shown(logged)
	r.options.Listener(e)
	return nil
}

// maxShownDepth bounds the nesting of reported data. The data becomes part of a
// message, and that message must not nest deeper than strictjson.MaxDepth.
const maxShownDepth = strictjson.MaxDepth / 2

// shown returns a part of the value as JSON on one line, so that it can be embedded
// in a message.
func (v *value) shown(part []byte) jsontext.Value {
	if !v.isJSON || strictjson.CheckDepth(part, maxShownDepth) != nil {
		return strictjson.AppendString(make([]byte, 0, len(part)+2), part)
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
