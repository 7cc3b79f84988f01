package celenv

import (
	"errors"
	"fmt"
)

const (
	// maxText limits the texts that a function of an expression reads or returns, in bytes.
	maxText = 64 << 10

	// MaxList limits the length of the JSON arrays and objects that an expression reads.
	MaxList = 10_000

	// maxDistinct limits the list of distinct, which compares every item with every other.
	maxDistinct = 1000
)

// Errors of values that an expression reads or produces.
var (
	ErrTextTooLong = fmt.Errorf("the text has more than %d bytes", maxText)
	ErrListTooLong = errors.New("the list is too long")
	errOffset      = errors.New("the offset is outside the text")
)
