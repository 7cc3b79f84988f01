package ocp

import (
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
)

// ActionAPICall is the action of a history entry that stands for a call of an API.
const ActionAPICall = "api_call"

// A HistoryEntry is one interaction of an agent (OCP 1.0, Context Schema, history).
type HistoryEntry struct {
	Timestamp   time.Time // required; to the microsecond, in UTC
	Action      string    // required: ActionAPICall, or a word of the agent's
	APIEndpoint string    // the URL that was called; "" if absent
	Result      string    // "success", or what went wrong; "" if absent

	Operation string         // metadata.operation
	ToolName  string         // metadata.tool_name
	Metadata  jsontext.Value // an object of the further metadata; nil if there are none
}

// The results of a history entry that stands for a call of an API.
const (
	ResultSuccess = "success"
	ResultError   = "error"
)

// CallEntry returns the history entry of one call of an API that was answered
// with status, 0 if it was not. Operation is the operationId, toolName the name
// of the tool; either may be "". The endpoint should have no query, which may
// hold what is nobody else's business.
func CallEntry(at time.Time, endpoint, operation, toolName string, status int) HistoryEntry {
	entry := HistoryEntry{
		Timestamp:   timestamp(at),
		Action:      ActionAPICall,
		APIEndpoint: endpoint,
		Result:      ResultSuccess,
		Operation:   operation,
		ToolName:    toolName,
	}
	switch {
	case status == 0:
		entry.Result = ResultError
	case status >= 400:
		entry.Result = ResultError + ": " + statusLine(status)
	}
	return entry
}

func (e *HistoryEntry) append(dst []byte) []byte {
	dst = append(dst, `{"timestamp":`...)
	dst = appendTime(dst, e.Timestamp)
	dst = append(dst, `,"action":`...)
	dst = wire.AppendString(dst, e.Action)
	dst = appendTextField(dst, "api_endpoint", e.APIEndpoint)
	dst = appendTextField(dst, "result", e.Result)
	if e.Operation != "" || e.ToolName != "" || e.Metadata != nil {
		dst = append(dst, `,"metadata":{`...)
		if e.Operation != "" {
			dst = append(dst, `"operation":`...)
			dst = wire.AppendString(dst, e.Operation)
		}
		if e.ToolName != "" {
			if e.Operation != "" {
				dst = append(dst, ',')
			}
			dst = append(dst, `"tool_name":`...)
			dst = wire.AppendString(dst, e.ToolName)
		}
		dst = append(appendMembers(dst, e.Metadata), '}')
	}
	return append(dst, '}')
}

func (e *HistoryEntry) validate(v *validation) {
	v.time("timestamp", e.Timestamp)
	for _, text := range []string{e.Action, e.APIEndpoint, e.Result, e.Operation, e.ToolName} {
		if !utf8.ValidString(text) {
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
	count := countElements(value)
	if count == 0 {
		return nil
	}
	skip := max(count-MaxHistory, 0)
	if skip > 0 {
		d.check(field, ReasonTooMany)
	}
	entries := make([]HistoryEntry, 0, count-skip)
	i := -1
	for walk := wire.Into(value); walk.Next(); {
		if i++; i < skip {
			continue
		}
		d.enter(field, i)
		if entry, ok := d.entry(walk.Value); ok {
			entries = append(entries, entry)
		}
	}
	d.leave()
	return entries
}

func (d *decoder) entry(value jsontext.Value) (e HistoryEntry, ok bool) {
	if value.Kind() != '{' {
		d.check("", ReasonType)
		return e, false
	}
	const timestamp, action, endpoint, result, metadata = 1, 2, 4, 8, 16
	seen, ok := d.eachMember("", value, func(known string, name, value jsontext.Value) (bit int) {
		switch known {
		case "timestamp":
			e.Timestamp = d.time("timestamp", value)
			return timestamp
		case "action":
			e.Action = d.text("action", value, false)
			return action
		case "api_endpoint":
			e.APIEndpoint = d.text("api_endpoint", value, true)
			return endpoint
		case "result":
			e.Result = d.text("result", value, true)
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
			e.Operation, _ = unquote(value)
			return operation
		case known == "tool_name" && isText:
			e.ToolName, _ = unquote(value)
			return tool
		}
		extra.add(name, value)
		return 0
	})
	if !ok {
		return
	}
	if e.Metadata, ok = extra.object(); !ok {
		d.check(field, ReasonJSON)
	}
}
