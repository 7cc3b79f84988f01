package files

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/files"
	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// fetchTime limits the download of a file.
const fetchTime = 30 * time.Second

// fileParams returns openai/fileParams, the arguments of a tool that ChatGPT fills with files. Those in objects cannot be.
func fileParams(t *tools.Tool) (name string, value []byte) {
	var names []string
	for i := range t.Plan.Arguments {
		if a := &t.Plan.Arguments[i]; isFile(a.Schema) {
			names = append(names, a.Name)
		}
	}
	if names != nil {
		value, _ = json.Marshal(names) // cannot fail: texts
	}
	return "openai/fileParams", value
}

// isFile reports whether a value of the schema, or each of its items, can be an upload.
func isFile(s jsontext.Value) bool {
	if string(s) == schema.UploadSchema {
		return true
	}
	for choices := strictjson.Into(strictjson.MemberOf(s, "anyOf")); choices.Next(); {
		if isFile(choices.Value) {
			return true
		}
	}
	items := strictjson.MemberOf(s, "items")
	return items != nil && isFile(items)
}

// download stores the file of an object that ChatGPT has put in place of a file. The URL contains a secret, so no message has it.
func (s *Section) download(by *route.Uploader, limits files.Limits, object jsontext.Value) (handle string, err error) {
	text := func(name string) string { return strictjson.Text(strictjson.MemberOf(object, name)) }
	failed := &files.Refusal{Status: http.StatusBadGateway, Message: "the file cannot be downloaded: download_url must be an https URL of a public server, without redirects. Use create_upload"}
	if !strings.HasPrefix(text("download_url"), "https://") {
		return "", failed
	}
	response, err := s.fetcher.Get(by.Context(), text("download_url"), nil)
	switch {
	case errors.Is(err, fetch.ErrTooLarge):
		return "", &files.Refusal{Status: http.StatusRequestEntityTooLarge, Message: "the file is larger than max_size of uploads"}
	case err != nil || response.Status != http.StatusOK:
		return "", failed
	}
	f := files.File{Name: request.CleanFilename(text("file_name")), Size: int64(len(response.Body))}
	f.Type = httpheader.MediaType(cmp.Or(text("mime_type"), response.Header.Get("Content-Type"), "application/octet-stream"))
	o, err := s.ownerOf(by.Context(), by)
	if err != nil {
		return "", err
	}
	t, _, err := s.store.Add(by.Context(), o, f, limits, bytes.NewReader(response.Body))
	return t.Handle, err
}
