package ocp

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
)

// ActionAPICall is the action of a history entry for an API call.
const ActionAPICall = "api_call"

// A HistoryEntry is one interaction of an agent (OCP 1.0, Context Schema, history).
type HistoryEntry struct {
	Timestamp   time.Time // required; to the microsecond, in UTC
	Action      string    // required: ActionAPICall, or an action that the agent defines
	APIEndpoint string    // the URL that was called; "" if absent
	Result      string    // "success", or a description of the error; "" if absent

	Operation string         // metadata.operation
	ToolName  string         // metadata.tool_name
	Metadata  jsontext.Value // an object of additional metadata; nil if there are none
}

// The results of a history entry for an API call.
const (
	resultSuccess = "success"
	resultError   = "error"
)

// CallEntry returns the history entry for one API call. Status is the status of the
// response, or 0 if there was none. Operation is the operationId and toolName the name of
// the tool; either may be "". The endpoint should not have a query, because a query may
// contain private data.
func CallEntry(at time.Time, endpoint, operation, toolName string, status int) HistoryEntry {
	entry := HistoryEntry{
		Timestamp:   timestamp(at),
		Action:      ActionAPICall,
		APIEndpoint: endpoint,
		Result:      resultSuccess,
		Operation:   operation,
		ToolName:    toolName,
	}
	switch {
	case status == 0:
		entry.Result = resultError
	case status >= 400:
		entry.Result = resultError + ": " + text.StatusLine(status)
	}
	return entry
}

func (e *HistoryEntry) append(dst []byte) []byte {
	dst = append(dst, `{"timestamp":`...)
	dst = appendTime(dst, e.Timestamp)
	dst = append(dst, `,"action":`...)
	dst = strictjson.AppendString(dst, e.Action)
	dst = appendTextField(dst, "api_endpoint", e.APIEndpoint)
	dst = appendTextField(dst, "result", e.Result)
	if e.Operation != "" || e.ToolName != "" || e.Metadata != nil {
		dst = append(dst, `,"metadata":{`...)
		if e.Operation != "" {
			dst = append(dst, `"operation":`...)
			dst = strictjson.AppendString(dst, e.Operation)
		}
		if e.ToolName != "" {
			if e.Operation != "" {
				dst = append(dst, ',')
			}
			dst = append(dst, `"tool_name":`...)
			dst = strictjson.AppendString(dst, e.ToolName)
		}
		dst = append(appendMembers(dst, e.Metadata), '}')
	}
	return append(dst, '}')
}

func (e *HistoryEntry) validate(v *validation) {
	v.time("timestamp", e.Timestamp)
	for _, source := range []string{e.Action, e.APIEndpoint, e.Result, e.Operation, e.ToolName} {
		if !utf8.ValidString(source) {
			v.check("", ReasonUTF8)
		}
	}
}

// history decodes the newest MaxHistory entries.
func (d *decoder) history(value jsontext.Value) []HistoryEntry {
	const field = "history"
	if !d.isKind(field, value, '[') {
		return nil
	}
	newest, count := newestItems(value, MaxHistory)
	if count == 0 {
		return nil
	}
	if count > MaxHistory {
		d.lose(field, ReasonTooMany)
	}
	entries := make([]HistoryEntry, 0, len(newest))
	for i, item := range newest {
		d.enter(field, count-len(newest)+i)
		if entry, ok := d.entry(item); ok {
			entries = append(entries, entry)
			d.previous = entry
		}
	}
	d.leave()
	return entries
}

// newestItems returns the last limit items of a validated array, and the total number of
// items. It reads the array once.
func newestItems(array jsontext.Value, limit int) (newest []jsontext.Value, count int) {
	newest = make([]jsontext.Value, 0, min(len(array)/minEntry, limit))
	for walk := strictjson.Into(array); walk.Next(); count++ {
		if count < limit {
			newest = append(newest, walk.Value)
		} else {
			newest[count%limit] = walk.Value // a ring buffer: replaces the oldest item
		}
	}
	if count > limit {
		oldest := count % limit
		newest = slices.Concat(newest[oldest:], newest[:oldest])
	}
	return newest, count
}

// minEntry is roughly the minimum length of an entry's JSON, in bytes.
const minEntry = 64

func (d *decoder) entry(value jsontext.Value) (e HistoryEntry, ok bool) {
	if value.Kind() != '{' {
		d.lose("", ReasonType)
		return e, false
	}
	const timestamp, action, endpoint, result, metadata = 1, 2, 4, 8, 16
	seen, ok := d.eachMember("", value, func(known string, name, value jsontext.Value) (bit int) {
		switch known {
		case "timestamp":
			e.Timestamp = d.time("timestamp", value)
			return timestamp
		case "action":
			e.Action = d.repeated("action", value, false, d.previous.Action)
			return action
		case "api_endpoint":
			e.APIEndpoint = d.repeated("api_endpoint", value, true, d.previous.APIEndpoint)
			return endpoint
		case "result":
			e.Result = d.repeated("result", value, true, d.previous.Result)
			return result
		case "metadata":
			d.metadata("metadata", value, &e)
			return metadata
		}
		d.check("", ReasonUnknown)
		return 0
	})
	if ok && seen&action == 0 {
		d.check("action", ReasonMissing)
	}
	return e, ok
}

// repeated decodes a text like text. If it equals previous, it returns previous and does
// not allocate a copy, because large histories contain many equal texts.
func (d *decoder) repeated(field string, value jsontext.Value, nullable bool, previous string) string {
	if len(value) == len(previous)+2 && value[0] == '"' && string(value[1:len(value)-1]) == previous &&
		strings.IndexByte(previous, '\\') < 0 {
		return previous
	}
	return d.text(field, value, nullable)
}

func (d *decoder) metadata(field string, value jsontext.Value, e *HistoryEntry) {
	if !d.isKind(field, value, '{') {
		return
	}
	const operation, tool = 1, 2
	var extra extraMembers
	_, ok := d.eachMember(field, value, func(known string, name, value jsontext.Value) (bit int) {
		isText := value.Kind() == '"'
		switch {
		case known == "operation" && isText:
			e.Operation = d.repeated("", value, true, d.previous.Operation)
			return operation
		case known == "tool_name" && isText:
			e.ToolName = d.repeated("", value, true, d.previous.ToolName)
			return tool
		}
		extra.add(name, value)
		return 0
	})
	if !ok {
		return
	}
	if e.Metadata, ok = extra.object(); !ok {
		d.lose(field, ReasonJSON)
	}
}

// A History is the history of a message's context. Its entries are decoded one at a time,
// when they are read.
type History struct {
	decoded []HistoryEntry
	raw     []jsontext.Value // objects; used if decoded is nil
}

// History returns the newest MaxHistory entries of the message's context.
func (in *Incoming) History() History {
	if !in.Valid() || in.Session == nil {
		return History{}
	}
	if in.Session.options.Strict { // strict mode has decoded the whole session
		return History{decoded: in.Context().History}
	}
	value := in.Session.Field("history")
	if value.Kind() != '[' {
		return History{}
	}
	newest, _ := newestItems(value, MaxHistory)
	return History{raw: slices.DeleteFunc(newest, func(item jsontext.Value) bool { return item.Kind() != '{' })}
}

// Len returns the number of entries.
func (h History) Len() int {
	return max(len(h.decoded), len(h.raw))
}

// At decodes the entry at position i, where 0 is the oldest. Invalid values are omitted.
func (h History) At(i int) HistoryEntry {
	if h.decoded != nil {
		return h.decoded[i]
	}
	var d decoder
	entry, _ := d.entry(h.raw[i])
	return entry
}
