package chat

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// isWhole reports whether an object with that name is extracted as written. The writer of such
// an object chooses its member names and numbers too.
func isWhole(name string) bool {
	switch name {
	case "input", "arguments", "args", "parsed", "parameters", "schema", "input_schema", "env", "attributes":
		return true
	}
	return false
}

// skips reports whether a member is known to contain no text.
func (t *texts) skips(name string, value jsontext.Value, kind string, depth int) bool {
	switch name {
	case "role":
		if t.request {
			role, _ := unquote(value)
			return isRole(role)
		}
		return isLabel(value)
	case "id", "object", "type", "model", "index", "status", "call_id", "item_id", "tool_call_id", "tool_use_id", "response_id",
		"finish_reason", "native_finish_reason", "stop_reason", "system_fingerprint", "service_tier", "provider":
		return isLabel(value)
	case "signature", "thought_signature", "encrypted_content", "obfuscation":
		return isOpaque(value)
	case "usage", "cache_control", "content_filter_results", "prompt_filter_results":
		return true
	case "data":
		return kind == "redacted_thinking" && isOpaque(value)
	}
	return t.responses && t.repeats(name, value, depth)
}

// repeats reports whether a member of a response in the responses API only repeats the
// request.
func (t *texts) repeats(name string, value jsontext.Value, depth int) bool {
	if depth > 1 || depth == 0 && !t.document || depth == 1 && !isResponse(t.place) {
		return false
	}
	switch name {
	case "instructions", "tools", "tool_choice", "metadata", "prompt", "prompt_cache_key", "user", "safety_identifier",
		"previous_response_id", "truncation", "conversation", "input":
		return true
	case "text", "reasoning": // settings; a string would be text of the model
		return value.Kind() == '{'
	}
	return false
}

// maxLabel is the maximum length of a label, including quotes.
const maxLabel = 256

// isLabel reports whether a string can be an id or a keyword: it has no spaces.
func isLabel(value jsontext.Value) bool {
	return len(value) <= maxLabel && isOpaque(value)
}

// isOpaque reports whether a string can be base64 data or a URL: no line of it has several
// words.
func isOpaque(value jsontext.Value) bool {
	text, ok := unquote(value)
	return ok && strings.IndexFunc(text, func(c rune) bool {
		return c <= ' ' && c != '\n' && c != '\r' || c >= 0x7f
	}) < 0
}

// maxName is the maximum length of a member name that is not treated as text, in bytes.
const maxName = 64

// isName reports whether a member name looks like an identifier.
func isName(name string) bool {
	if len(name) > maxName {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '_', c == '-', c == '.', c == '$', c == ':':
		default:
			return false
		}
	}
	return true
}

// isResponse reports whether the place is the complete response inside an event.
func isResponse(place []byte) bool {
	return bytes.HasSuffix(place, []byte("/response")) && bytes.Count(place, []byte("/")) == 1
}

// isTokens reports whether the array at that place contains the tokens of one text.
func isTokens(place []byte) bool {
	return bytes.HasSuffix(place, []byte("/logprobs")) || bytes.HasSuffix(place, []byte("/logprobs/content")) || bytes.HasSuffix(place, []byte("/logprobs/refusal"))
}

// isMediaPart reports whether a message part of that type is not text.
func isMediaPart(kind string) bool {
	switch kind {
	case "", "text", "input_text", "output_text", "message", "tool_result", "refusal", "ephemeral",
		"function", "custom", "tool_use", "server_tool_use", "thinking", "redacted_thinking", "reasoning_text", "summary_text":
		return false
	case "url_citation", "file_citation", "file_path", "container_file_citation", // of responses that are sent again
		"char_location", "page_location", "content_block_location", "web_search_result_location", "search_result_location", "search_result",
		"mcp_tool_use", "mcp_tool_result", "web_search_tool_result", "web_search_result", "web_search_tool_result_error", "web_fetch_tool_result",
		"code_execution_tool_result", "code_execution_result", "tool_reference",
		"search", "open_page", "find", "exec", "logs", "click", "double_click", "drag", "keypress", "move", "scroll", "type", "wait", "screenshot":
		return false
	}
	return true
}

// isMediaName reports whether a part that has this member and no type is not text.
func isMediaName(name string) bool {
	switch name {
	case "image_url", "input_image", "image", "image_embeds", "input_audio", "audio_url", "audio", "video_url", "video", "file", "source", "inline_data":
		return true
	}
	return false
}

// isMedia reports whether a string is an image, audio or a file.
func isMedia(name, kind string, value jsontext.Value) bool {
	if value.Kind() != '"' {
		return false
	}
	switch {
	case name == "data", name == "file_data":
		return kind != "text"
	case name == "file_id", name == "file_url":
		return true
	case strings.Contains(name, "b64"), name == "result" && kind == "image_generation_call":
		return true
	case name == "url", name == "uri", isMediaName(name):
		return bytes.HasPrefix(value, []byte(`"data:`))
	}
	return false
}
