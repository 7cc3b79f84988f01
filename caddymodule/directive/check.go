package directive

import (
	"fmt"
)

// NotNegative returns an error if the value of an option is negative.
func NotNegative(option string, value int64) error {
	if value < 0 {
		return fmt.Errorf("%s %d is negative", option, value)
	}
	return nil
}

// MinSecret is the minimum length of a secret, in bytes.
const MinSecret = 16
