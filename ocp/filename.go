package ocp

import (
	"mime"

	"github.com/fairwayhq/fairway/ocp/body"
)

// Filename returns the name that the API gave a file in Content-Disposition (RFC
// 6266), "" if it gave none. It is the last element of a path, has no control
// characters and at most body.MaxFilename bytes.
func (r *Result) Filename() string {
	value := r.Header.Get("Content-Disposition")
	if value == "" {
		return ""
	}
	_, parameters, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	return clip(body.CleanFilename(parameters["filename"]), body.MaxFilename)
}
