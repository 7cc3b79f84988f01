package mcpadapter

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// Limits of a batch, which only revision 2025-03-26 has. The responses are collected in memory, so a
// small batch must not produce an unlimited amount.
const (
	maxBatch       = 64       // messages
	maxBatchAnswer = 16 << 20 // bytes of responses after which no further request is served
)

// serveBatch serves the messages of a batch one after the other and writes the array of their
// responses in the same order.
func (x *exchange) serveBatch(body []byte) {
	if !x.terms.Version.SupportsBatches() {
		x.refuse(protocol.Malformed("only revision 2025-03-26 supports batches: send each message separately"))
		return
	}
	var messages []jsontext.Value
	for walk := strictjson.Into(body); walk.Next(); {
		if len(messages) == maxBatch {
			x.refuse(protocol.Malformed("a batch can have at most %d messages: send the rest in another", maxBatch))
			return
		}
		messages = append(messages, walk.Value)
	}
	if len(messages) == 0 {
		x.refuse(protocol.Malformed("the batch is empty: send at least one message"))
		return
	}
	x.batched = true
	x.response.out.B = append(x.response.out.B, '[')
	for _, raw := range messages {
		if x.ctx.Err() != nil {
			break
		}
		x.serveElement(raw)
	}
	if len(x.response.out.B) == 1 {
		x.response.out.B, x.status = x.response.out.B[:0], http.StatusAccepted
		return
	}
	x.response.out.B[len(x.response.out.B)-1] = ']' // replaces the comma after the last response
	x.status = http.StatusOK
}

// serveElement serves one message of a batch and appends a comma to its response.
func (x *exchange) serveElement(raw jsontext.Value) {
	before := len(x.response.out.B)
	x.response.id, x.response.version, x.status = nil, x.terms.Version, http.StatusOK // reset what the previous message set
	if raw.Kind() == '{' {
		x.serveMessage(raw)
	} else {
		x.refuse(protocol.Malformed("a message must be an object, not %s", strictjson.KindName(raw.Kind())))
	}
	x.response.out.B = append(x.response.out.B, x.response.trailer...)
	x.response.trailer = nil
	if len(x.response.out.B) > before {
		x.response.out.B = append(x.response.out.B, ',')
	}
}
