package openapi

import (
	"errors"
	"fmt"

	"github.com/fairwayhq/fairway/internal/text"
)

// Limits on the operations of one document. With $refs, a small document can have a
// great many operations that share one large part, and each operation gets its own
// copy of the text in it.
const (
	maxReading    = 256 << 20 // bytes, for all operations together
	partCost      = 128       // bytes, counted for each parameter, media type, name and so on
	maxParameters = 1000      // of one operation
	maxPath       = 8 << 10   // bytes of a path template or a server URL
	maxPathNames  = 100       // in one path template
	maxMessage    = 500       // bytes of one warning or error
)

var errTooMuch = fmt.Errorf("the operations up to here take more than %d MiB: split the document, or let fewer operations share large parts", maxReading>>20)

// A budget is the number of bytes that may still be read for a document's operations.
type budget struct {
	left int // bytes
}

// take takes cost from the budget and reports whether it was available.
func (b *budget) take(cost int) bool {
	b.left = max(b.left-cost, -1)
	return b.left >= 0
}

// part reports whether the budget allows one more part. If not, the operation becomes
// unusable.
func (r *reader) part() bool {
	return r.take(partCost)
}

func (r *reader) take(cost int) bool {
	if r.budget.take(cost) {
		return true
	}
	r.fail("%w", errTooMuch)
	return false
}

// text is plainText, counted against the budget.
func (r *reader) text(n *Node) string {
	if !r.take(len(n.Raw())) {
		return ""
	}
	return plainText(n)
}

// texts returns a list of texts, counted against the budget.
func (r *reader) texts(n *Node) []string {
	cost := len(n.Raw())
	for _, item := range n.Items() {
		cost += partCost + len(item.Raw())
	}
	if !r.take(cost) {
		return nil
	}
	return texts(n)
}

// warn adds a warning to the operation.
func (r *reader) warn(format string, arguments ...any) {
	if r.part() {
		r.Warnings = append(r.Warnings, text.Cut(fmt.Sprintf(format, arguments...), maxMessage))
	}
}

// fail makes the operation unusable. The first reason is kept.
func (r *reader) fail(format string, arguments ...any) {
	if r.Err != nil {
		return
	}
	r.Err = fmt.Errorf(format, arguments...)
	if message := r.Err.Error(); len(message) > maxMessage {
		r.Err = errors.New(text.Cut(message, maxMessage))
	}
}
