package text

import (
	"net/http"
	"strconv"
)

// StatusLine returns an HTTP status with its name: "404 Not Found".
func StatusLine(status int) string {
	if name := http.StatusText(status); name != "" {
		return strconv.Itoa(status) + " " + name
	}
	return strconv.Itoa(status)
}
