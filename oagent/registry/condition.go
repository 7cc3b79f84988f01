package registry

import (
	"errors"
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/prepared"
)

// ErrPrecondition reports that If-Match or If-None-Match does not hold.
var ErrPrecondition = errors.New("the agent has another version than the request expects")

// Condition is the precondition of a change (RFC 9110, section 13.1). The zero value always holds.
type Condition struct {
	ifMatch, ifNoneMatch []string // values of the headers
}

// ConditionOf returns the condition of a request.
func ConditionOf(header http.Header) Condition {
	return Condition{header["If-Match"], header["If-None-Match"]}
}

// check returns ErrPrecondition if the condition does not hold for the current version. current is
// nil if there is none.
func (c Condition) check(current *Entry) error {
	if len(c.ifMatch) > 0 && !matchesStrongly(c.ifMatch, current) {
		return ErrPrecondition
	}
	if len(c.ifNoneMatch) > 0 && current != nil && prepared.MatchesTag(c.ifNoneMatch, current.Tag()) {
		return ErrPrecondition
	}
	return nil
}

// matchesStrongly evaluates If-Match, for which a weak tag never matches.
func matchesStrongly(values []string, current *Entry) bool {
	if current == nil {
		return false
	}
	for _, value := range values {
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item == "*" || item == current.Tag() {
				return true
			}
		}
	}
	return false
}
