package expr

import (
	"errors"
	"fmt"
)

const (
	// MaxText is the longest text that an expression may look at or make with
	// one function, in bytes.
	MaxText = 64 << 10

	// MaxList is the longest list of JSON, or the largest object, that an
	// expression may look at.
	MaxList = 10_000

	// maxDistinct is the longest list that distinct takes, which compares each
	// item with each other.
	maxDistinct = 1000
)

// What is wrong with a value that an expression looks at, or makes.
var (
	ErrTextTooLong = fmt.Errorf("the text has more than %d bytes", MaxText)
	ErrListTooLong = errors.New("the list is too long")
	errOffset      = errors.New("the offset lies outside the text")
)
