package files

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/caddymodule/mcp"
	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/caddymodule/site"
	"github.com/fairwayhq/fairway/files"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/mcpadapter"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
)

// part adds files/authorizeUpload (SEP-2631, a draft) to each MCP endpoint of a configuration with uploads.
type part struct{}

// Options implements mcp.Part.
func (*part) Options(*directive.Block) directive.Options { return nil }

// Provision implements mcp.Part.
func (*part) Provision(ctx caddy.Context, m *mcp.Handler) error {
	s, err := site.SectionOf[*Section](ctx)
	if err == nil && s.Uploads != nil {
		m.ToolMeta = fileParams
		m.Extensions = append(m.Extensions, mcpadapter.Extension{
			Capability: `,"files":{}`, Methods: map[string]mcpadapter.ExtensionMethod{"files/authorizeUpload": s.authorize},
		})
	}
	return err
}

// fileValue describes a file. It is the FileValue of SEP-2631.
type fileValue struct {
	URI      string  `json:"uri,omitempty"`
	Name     string  `json:"name,omitempty"`
	MimeType string  `json:"mimeType,omitempty"`
	Size     int64   `json:"size,omitempty"`
	Digest   *digest `json:"digest,omitempty"`
}

type digest struct {
	Algorithm string `json:"algorithm"` // sha-256
	Value     string `json:"value"`     // base64url without padding
}

// uriPrefix begins the URIs of uploads.
func (s *Section) uriPrefix() string {
	u, _ := url.Parse(s.Uploads.URL) // Provision has checked it
	return "mcp-file://" + u.Host + "/"
}

// authorize serves files/authorizeUpload: create_upload for hosts that upload files themselves. The file must fit an argument of any tool.
func (s *Section) authorize(ctx context.Context, r *mcpadapter.ExtensionRequest) ([]byte, *mcpadapter.Fault) {
	var v fileValue
	if json.Unmarshal(r.Params, &v) != nil || v.Size <= 0 {
		return nil, invalid("invalidSize", "name and mimeType must be strings, and size a whole number above 0", nil)
	}
	f := files.File{Name: request.CleanFilename(v.Name), Type: httpheader.MediaType(v.MimeType), Size: v.Size}
	if v.Digest != nil {
		sum, err := base64.RawURLEncoding.DecodeString(v.Digest.Value)
		if f.SHA256 = hex.EncodeToString(sum); err != nil || len(sum) != 32 || v.Digest.Algorithm != "sha-256" {
			return nil, invalid("invalidDigest", "digest must have the algorithm sha-256, and a value in base64url without padding", nil)
		}
	}
	set := r.Site.Host.Tools()
	limits := s.limitsOfAny(set)
	if f.Type == "" || len(limits.Accept) == 0 || limits.Check(files.File{Type: f.Type}) != nil {
		return nil, invalid("mimeTypeNotAccepted", "no tool takes files of this type", map[string]any{"accept": limits.Accept})
	}
	t, err := s.create(ctx, route.UploaderOf(r.Site.Host.Caller(set).(*route.Caller)), f, limits)
	refusal, refused := errors.AsType[*files.Refusal](err)
	switch {
	case refused && refusal.Status == http.StatusRequestEntityTooLarge:
		return nil, invalid("maxSizeExceeded", refusal.Message, map[string]any{"maxSize": limits.MaxSize, "actualSize": f.Size})
	case refused:
		return nil, &mcpadapter.Fault{Status: http.StatusOK, Code: -32603, Message: refusal.Message, Data: []byte(`{"reason":"storeFull"}`)}
	case err != nil:
		return nil, &mcpadapter.Fault{Status: http.StatusOK, Code: -32603, Message: s.failure(err).Message}
	}
	v.URI, v.Name, v.MimeType = s.uriPrefix()+t.Handle, f.Name, f.Type
	upload := s.descriptor(&t)
	upload["headers"] = map[string]string{"Content-Type": f.Type}
	return encode(map[string]any{"file": v, "upload": upload}), nil
}

// invalid returns the error of parameters, with its reason as in SEP-2631.
func invalid(reason, message string, data map[string]any) *mcpadapter.Fault {
	all := map[string]any{"reason": reason}
	for name, value := range data {
		all[name] = value
	}
	return &mcpadapter.Fault{Status: http.StatusOK, Code: -32602, Message: message, Data: encode(all)}
}

// limitsOfAny returns which files at least one argument of the tools takes. A call checks those of its own argument.
func (s *Section) limitsOfAny(set *tools.Toolset) files.Limits {
	all := files.Limits{Accept: []string{}}
	for _, t := range set.Tools() {
		if !takesUpload(t.Definition.InputSchema) {
			continue
		}
		for i := range t.Plan.Arguments {
			limits, ok := limitsOf(t, t.Plan.Arguments[i].Name)
			if !ok {
				continue
			}
			if limits.Accept == nil {
				limits.Accept = []string{"*/*"}
			}
			all.Accept = append(all.Accept, limits.Accept...)
			all.MaxSize = max(all.MaxSize, cmp.Or(min(limits.MaxSize, s.store.MaxSize), s.store.MaxSize))
		}
	}
	slices.Sort(all.Accept)
	all.Accept = slices.Compact(all.Accept)
	return all
}
