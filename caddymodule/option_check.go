package caddymodule

import (
	"fmt"
)

func notNegative(option string, value int64) error {
	if value < 0 {
		return fmt.Errorf("%s %d is negative", option, value)
	}
	return nil
}

// minSecret is how long a secret must be, in bytes.
const minSecret = 16
