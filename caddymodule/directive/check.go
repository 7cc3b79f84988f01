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

// MinSecret is how long a secret must be, in bytes.
const MinSecret = 16
