package files

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/files"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/respond"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// TakesUploads implements route.Uploads.
func (s *Section) TakesUploads() bool { return s.Uploads != nil }

// takesUpload reports whether a schema has the handle of an upload.
func takesUpload(described jsontext.Value) bool {
	return bytes.Contains(described, []byte(`"^`+files.Prefix))
}

// Lists implements route.Uploads.
func (s *Section) Lists(set *tools.Toolset) bool {
	return slices.ContainsFunc(set.Tools(), func(t *tools.Tool) bool { return takesUpload(t.Definition.InputSchema) })
}

// ownerOf returns who owns the files of a caller: the authenticated user of this site, or else the client's address with its credentials. The
// limits hold for the address, because credentials that were not checked can be made up.
func (s *Section) ownerOf(ctx context.Context, by *route.Uploader) (o files.Owner, err error) {
	st, err := s.store.Open(ctx)
	if err != nil {
		return o, err
	}
	key, err := s.keys.Current(ctx, st)
	if err != nil {
		return o, err
	}
	id := func(values ...string) string {
		h := key.Hash("uploads")
		for _, value := range values {
			h.Add(value)
		}
		digest := h.Digest()
		return base64.RawURLEncoding.EncodeToString(digest[:12])
	}
	o = files.Owner{User: route.AuthenticatedUser(by.Request), Share: route.OwnerOf(by.Request)}
	if o.ID = id(by.SiteName, "user", o.User); o.User == "" {
		o.ID = id(by.SiteName, "address", route.ClientAddress(by.Request)) + files.Within + id(by.Header.Get("Authorization"))
	}
	return o, nil
}

// limitsOf returns which files an argument takes. ok is false if it takes none.
func limitsOf(t *tools.Tool, argument string) (limits files.Limits, ok bool) {
	i := slices.IndexFunc(t.Plan.Arguments, func(a tools.Argument) bool { return a.Name == argument })
	if i < 0 {
		return limits, false
	}
	a := &t.Plan.Arguments[i]
	followed := make(map[string]bool)
	var read func(jsontext.Value, bool) jsontext.Value
	read = func(described jsontext.Value, _ bool) jsontext.Value {
		ok = ok || string(described) == schema.UploadSchema
		if declared := strictjson.MemberOf(described, "x-mcp-file"); declared != nil {
			_ = json.Unmarshal(declared, &limits) // the builder has written it
		} else if accept := strictjson.Text(strictjson.MemberOf(described, "contentMediaType")); accept != "" {
			limits.Accept = []string{accept}
		}
		if length, err := strconv.ParseInt(string(strictjson.MemberOf(described, "maxLength")), 10, 64); err == nil && strictjson.HasMember(described, "contentEncoding") {
			limits.MaxSize = length / 4 * 3 // bytes of so much base64
		}
		if name, isRef := strings.CutPrefix(strictjson.Text(strictjson.MemberOf(described, "$ref")), "#/$defs/"); isRef && !followed[name] {
			followed[name] = true
			rewrite(strictjson.MemberOf(strictjson.MemberOf(t.Definition.InputSchema, "$defs"), name), true, read)
		}
		return nil
	}
	rewrite(a.Schema, true, read)
	if body := t.Plan.Body; limits.Accept == nil && a.In == tools.InBody && isForm(body) && body.Encoder.Accepts(a.WireName) != "" {
		limits.Accept = strings.Split(body.Encoder.Accepts(a.WireName), ", ")
	}
	return limits, ok
}

// isForm reports whether files of a body are objects as in request.UploadSchema. Otherwise they are base64 in JSON.
func isForm(body *request.BodyPlan) bool {
	return body != nil && (body.Encoder.Kind() == request.Binary || body.Encoder.Kind() == request.Multipart)
}

// Create implements route.Uploads.
func (s *Section) Create(ctx context.Context, by *route.Uploader, set *tools.Toolset, call *tools.Call) (*tools.Result, error) {
	arguments := call.Arguments()
	text := func(name string) string {
		value, _ := arguments[name].(string)
		return value
	}
	t, ok := set.Tool(text("tool"))
	if !ok {
		unknown := set.Unknown(text("tool"), func(*tools.Tool) bool { return true })
		unknown.Kind = tools.InvalidArguments // create_upload itself is known
		return nil, unknown
	}
	limits, ok := limitsOf(t, text("field"))
	if !ok {
		return nil, &tools.Failure{Kind: tools.InvalidArguments, Message: t.Name + " has no argument of this name that is a file: its schema says which take an upload"}
	}
	f := files.File{Name: request.CleanFilename(text("name")), Type: httpheader.MediaType(text("type")), SHA256: text("sha256")}
	size, _ := arguments["size"].(json.Number)
	f.Size, _ = size.Int64() // 0 if it is absent; the schema limits it
	ticket, err := s.create(ctx, by, f, limits)
	if err != nil {
		return nil, s.failure(err)
	}
	to, upload := s.Uploads.URL+ticket.Secret, `{"upload":"`+ticket.Handle+`"}`
	page := &tools.Page{URL: to, Message: "Upload " + cmp.Or(f.Name, "a file") + " for " + t.Name + " on the page. The link works once, until " + ticket.Expires.Format("15:04 MST") + "."}
	return &tools.Result{Status: http.StatusOK, Private: true, Page: page, Header: http.Header{"Content-Type": {"application/json"}}, Body: encode(map[string]any{
		"upload": ticket.Handle, "descriptor": s.descriptor(&ticket), "maxSize": ticket.MaxSize, "accept": limits.Accept,
		"curl": "curl -sS -F file=@PATH " + to, "next": "When the file is uploaded, call " + t.Name + " with " + upload + " as " + text("field"),
	})}, nil
}

func (s *Section) create(ctx context.Context, by *route.Uploader, f files.File, limits files.Limits) (t files.Ticket, err error) {
	o, err := s.ownerOf(ctx, by)
	if err == nil {
		t, err = s.store.Create(ctx, o, f, limits)
	}
	return t, err
}

// add stores a file of a caller. See files.Store.Add.
func (s *Section) add(ctx context.Context, by *route.Uploader, f files.File, l files.Limits, content []byte, isLink bool) (t files.Ticket, _ files.File, err error) {
	o, err := s.ownerOf(ctx, by)
	if err == nil {
		t, f, err = s.store.Add(ctx, o, f, l, content, isLink)
	}
	return t, f, err
}

// descriptor says how to upload a file, as in SEP-2631.
func (s *Section) descriptor(t *files.Ticket) map[string]any {
	return map[string]any{"transport": "https", "method": http.MethodPut, "url": s.Uploads.URL + t.Secret, "expiresAt": t.Expires.Format(time.RFC3339)}
}

func encode(value map[string]any) []byte {
	body, _ := json.Marshal(value) // cannot fail: texts and numbers
	return body
}

// Link implements route.Uploads. A hosted agent gets no URL, because its conversation is in the store, and any size becomes a handle,
// because its model cannot read the bytes.
func (s *Section) Link(ctx context.Context, by *route.Uploader, response *tools.Result) {
	media, isAgent := response.MediaType(), by.Agent != ""
	isText := httpheader.IsJSON(media) || httpheader.IsText(media) || (media == "" || isAgent) && utf8.Valid(response.Body)
	if isText || !isAgent && int64(len(response.Body)) <= s.Uploads.LinkAbove {
		return
	}
	t, f, err := s.add(ctx, by, files.File{Name: response.Filename(), Type: media}, files.Limits{}, response.Body, !isAgent)
	if err != nil {
		s.logger.Error("a large response cannot be stored for a link", zap.Error(err))
		return
	}
	response.Release()
	response.Header.Del("Content-Disposition")
	response.Header.Set("Content-Type", "application/json")
	link := map[string]any{"upload": t.Handle, "name": f.Name, "type": f.Type, "size": f.Size, "sha256": f.SHA256}
	if !isAgent {
		link["uri"], link["expiresAt"] = s.Uploads.URL+t.Secret, t.Expires.Format(time.RFC3339)
	}
	response.Private, response.Body = true, encode(link)
}

// failure returns an error of the store as the failure of a call.
func (s *Section) failure(err error) *tools.Failure {
	if failure, ok := errors.AsType[*tools.Failure](err); ok {
		return failure
	}
	if errors.Is(err, context.Canceled) {
		return &tools.Failure{Kind: tools.Canceled, Message: "the call was canceled"}
	}
	if refusal, ok := errors.AsType[*files.Refusal](err); ok {
		return &tools.Failure{Kind: tools.InvalidArguments, Message: refusal.Message}
	}
	if status, message := respond.BodyFailure(err); status != 0 {
		return &tools.Failure{Kind: tools.Refused, Status: status, Unsent: true, Message: "the call was not made: " + message}
	}
	s.logger.Error("an uploaded file cannot be stored or read", zap.Error(err))
	return &tools.Failure{Kind: tools.Internal, Message: "the gateway cannot store or read uploaded files; the reason is in its log. Try again later"}
}
