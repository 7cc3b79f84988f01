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

var errTooMuch = fmt.Errorf("the operations up to this one need more than %d MiB: split the document, or let fewer operations share large parts", maxReading>>20)

// A budget is the number of bytes that may still be read for a document's operations.
type budget struct {
	left int // bytes
}

// take takes cost from the budget and reports whether it was available.
func (b *budget) take(cost int) bool {
	b.left = max(b.left-cost, -1)
	return b.left >= 0
}

// A ledger records what the reading of one operation costs and what is wrong with the
// operation. The readers of its parts share it.
type ledger struct {
	budget    *budget
	operation *Operation
}

// part reports whether the budget allows one more part. If not, the operation becomes
// unusable.
func (l *ledger) part() bool {
	return l.take(partCost)
}

func (l *ledger) take(cost int) bool {
	if l.budget.take(cost) {
		return true
	}
	l.fail("%w", errTooMuch)
	return false
}

// text is plainText, counted against the budget.
func (l *ledger) text(n *Node) string {
	if !l.take(len(n.Raw())) {
		return ""
	}
	return plainText(n)
}

// texts returns a list of texts, counted against the budget.
func (l *ledger) texts(n *Node) []string {
	cost := len(n.Raw())
	for _, item := range n.Items() {
		cost += partCost + len(item.Raw())
	}
	if !l.take(cost) {
		return nil
	}
	return texts(n)
}

// warn adds a warning to the operation.
func (l *ledger) warn(format string, arguments ...any) {
	if l.part() {
		l.operation.Warnings = append(l.operation.Warnings, text.Cut(fmt.Sprintf(format, arguments...), maxMessage))
	}
}

// fail makes the operation unusable. The first reason is kept.
func (l *ledger) fail(format string, arguments ...any) {
	if l.operation.Err != nil {
		return
	}
	l.operation.Err = fmt.Errorf(format, arguments...)
	if message := l.operation.Err.Error(); len(message) > maxMessage {
		l.operation.Err = errors.New(text.Cut(message, maxMessage))
	}
}
