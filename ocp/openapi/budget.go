package openapi

import (
	"errors"
	"fmt"
	"strings"
)

// What the operations of one document may cost. Through $refs a small document
// can have a great many operations that share one large part, and each has its
// own copy of what it says.
const (
	maxReading    = 256 << 20 // bytes, of all operations together
	partCost      = 128       // bytes, of one parameter, media type, name or the like
	maxParameters = 1000      // of one operation
	maxPath       = 8 << 10   // bytes of a path template, or of a server's URL
	maxPathNames  = 100       // in one path template
	maxMessage    = 500       // bytes of one warning or error
)

var errTooMuch = fmt.Errorf("the operations up to here take more than %d MiB: split the document, or let fewer operations share large parts", maxReading>>20)

// A budget is what is left for reading the operations of a document.
type budget struct {
	left int // bytes
}

// take reports whether cost was still left.
func (b *budget) take(cost int) bool {
	b.left = max(b.left-cost, -1)
	return b.left >= 0
}

// part reports whether one more part may be read, and makes the operation
// unusable if not.
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

// text is plainText within the budget.
func (r *reader) text(n *Node) string {
	if !r.take(len(n.Raw())) {
		return ""
	}
	return plainText(n)
}

// texts is the list of texts within the budget.
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

// warn adds a warning to the operation's.
func (r *reader) warn(format string, arguments ...any) {
	if r.part() {
		r.Warnings = append(r.Warnings, shorten(fmt.Sprintf(format, arguments...)))
	}
}

// fail makes the operation unusable; its first reason is kept.
func (r *reader) fail(format string, arguments ...any) {
	if r.Err != nil {
		return
	}
	r.Err = fmt.Errorf(format, arguments...)
	if message := r.Err.Error(); len(message) > maxMessage {
		r.Err = errors.New(shorten(message))
	}
}

// shorten cuts a message that quotes the document at too great length.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + "…"
}
