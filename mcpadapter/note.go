package mcpadapter

import (
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// metaNext is the member of a result's _meta with the cursor of the next part of a large response.
const metaNext = "io.github.fairwayhq/next"

// appendNote appends a text block that says which part of the response the other blocks are. It is a
// block of its own, so that structuredContent and the text of the response stay as they are.
func appendNote(dst []byte, r *tool.Result) []byte {
	if r == nil || r.Note == "" {
		return dst
	}
	return content.AppendText(append(dst, ','), r.Note)
}

// appendNext adds the cursor of the next part to the members of a result's _meta.
func appendNext(meta []byte, r *tool.Result) []byte {
	if r == nil || r.Next == "" {
		return meta
	}
	if len(meta) > 0 {
		meta = append(meta, ',')
	}
	return wire.AppendString(append(meta, `"`+metaNext+`":`...), r.Next)
}
