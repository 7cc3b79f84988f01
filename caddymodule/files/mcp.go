package files

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/mcp"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/files"
	"github.com/fairwayhq/fairway/internal/fetch"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// part adds what hosts use that upload files themselves to each MCP endpoint: files/authorizeUpload of SEP-2631 (a draft), and
// openai/fileParams of ChatGPT.
type part struct{}

// Options implements mcp.Part.
func (*part) Options(*directive.Block) directive.Options { return nil }

// Provision implements mcp.Part.
func (*part) Provision(ctx caddy.Context, m *mcp.Handler) error {
	s, err := site.SectionOf[*Section](ctx)
	if err == nil && s.Uploads != nil {
		methods := map[string]mcpadapter.ExtensionMethod{"files/authorizeUpload": s.authorize}
		m.Extensions = append(m.Extensions, mcpadapter.Extension{Capability: `,"files":{}`, Methods: methods})
		m.ToolMeta = fileParams
	}
	return err
}

// authorize serves files/authorizeUpload. The file must fit an argument of any tool.
func (s *Section) authorize(ctx context.Context, r *mcpadapter.ExtensionRequest) ([]byte, *mcpadapter.Fault) {
	var p struct {
		Name, MimeType string
		Size           int64
		Digest         *struct{ Algorithm, Value string } // sha-256, and base64url without padding
	}
	if json.Unmarshal(r.Params, &p) != nil || p.Size <= 0 {
		return nil, refuse("name and mimeType must be strings, and size a whole number above 0", map[string]any{"reason": "invalidSize"})
	}
	f := files.File{Name: request.CleanFilename(p.Name), Type: httpheader.MediaType(p.MimeType), Size: p.Size}
	if p.Digest != nil {
		sum, err := base64.RawURLEncoding.DecodeString(p.Digest.Value)
		if f.SHA256 = hex.EncodeToString(sum); err != nil || len(sum) != 32 || p.Digest.Algorithm != "sha-256" {
			return nil, refuse("digest must have the algorithm sha-256, and a value in base64url without padding", map[string]any{"reason": "invalidDigest"})
		}
	}
	set := r.Site.Host.Tools()
	limits := s.limitsOfAny(set)
	if f.Type == "" || len(limits.Accept) == 0 || limits.Check(files.File{Type: f.Type}) != nil {
		return nil, refuse("no tool takes files of this type", map[string]any{"reason": "mimeTypeNotAccepted", "accept": limits.Accept})
	}
	t, err := s.create(ctx, route.UploaderOf(r.Site.Host.Caller(set).(*route.Caller)), f, limits)
	refusal, ok := errors.AsType[*files.Refusal](err)
	if ok && refusal.Status == http.StatusRequestEntityTooLarge {
		return nil, refuse(refusal.Message, map[string]any{"reason": "maxSizeExceeded", "maxSize": limits.MaxSize, "actualSize": f.Size})
	} else if err != nil {
		f := &mcpadapter.Fault{Status: http.StatusOK, Code: -32603, Message: s.failure(err).Message}
		if ok {
			f.Data = []byte(`{"reason":"storeFull"}`)
		}
		return nil, f
	}
	file := map[string]any{"uri": s.uris + t.Handle, "name": f.Name, "mimeType": f.Type, "size": f.Size}
	if p.Digest != nil {
		file["digest"] = map[string]any{"algorithm": p.Digest.Algorithm, "value": p.Digest.Value}
	}
	upload := s.descriptor(&t)
	upload["headers"] = map[string]string{"Content-Type": f.Type}
	return encode(map[string]any{"file": file, "upload": upload}), nil
}

func refuse(message string, data map[string]any) *mcpadapter.Fault {
	return &mcpadapter.Fault{Status: http.StatusOK, Code: -32602, Message: message, Data: encode(data)}
}

// limitsOfAny returns which files at least one argument of the tools takes. A call checks those of its own argument.
func (s *Section) limitsOfAny(set *tools.Toolset) files.Limits {
	all := files.Limits{Accept: []string{}}
	for _, t := range set.Tools() {
		for i := range t.Plan.Arguments {
			if !takesUpload(t.Definition.InputSchema) {
				break
			}
			if limits, ok := limitsOf(t, t.Plan.Arguments[i].Name); ok {
				if limits.Accept == nil {
					limits.Accept = []string{"*/*"}
				}
				all.Accept = append(all.Accept, limits.Accept...)
				all.MaxSize = max(all.MaxSize, cmp.Or(min(limits.MaxSize, s.store.MaxSize), s.store.MaxSize))
			}
		}
	}
	slices.Sort(all.Accept)
	all.Accept = slices.Compact(all.Accept)
	return all
}

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
func (s *Section) download(ctx context.Context, by *route.Uploader, limits files.Limits, object jsontext.Value) (handle string, err error) {
	text := func(name string) string { return strictjson.Text(strictjson.MemberOf(object, name)) }
	failed := &files.Refusal{Status: http.StatusBadGateway, Message: "the file cannot be downloaded: download_url must be an https URL of a public server, without redirects. Use create_upload"}
	if !strings.HasPrefix(text("download_url"), "https://") {
		return "", failed
	}
	response, err := s.fetcher.Get(ctx, text("download_url"), nil)
	switch {
	case errors.Is(err, fetch.ErrTooLarge):
		return "", &files.Refusal{Status: http.StatusRequestEntityTooLarge, Message: "the file is larger than max_size of uploads"}
	case err != nil || response.Status != http.StatusOK:
		return "", failed
	}
	f := files.File{Name: request.CleanFilename(text("file_name"))}
	f.Type = httpheader.MediaType(cmp.Or(text("mime_type"), response.Header.Get("Content-Type"), "application/octet-stream"))
	t, _, err := s.add(ctx, by, f, limits, response.Body, false)
	return t.Handle, err
}
