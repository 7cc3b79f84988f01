package tool

import (
	"mime"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp/internal/body"
)

// Filename returns the filename from the response's Content-Disposition (RFC 6266), or ""
// if there is none. It contains only the last path element and no control characters, and
// has at most body.MaxFilename bytes.
func (r *Result) Filename() string {
	value := r.Header.Get("Content-Disposition")
	if value == "" {
		return ""
	}
	_, parameters, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	return text.Cut(body.CleanFilename(parameters["filename"]), body.MaxFilename)
}
