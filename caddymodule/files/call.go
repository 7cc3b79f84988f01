package files

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/fairwayhq/fairway/caddymodule/route"
	"github.com/fairwayhq/fairway/files"
	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// maxPerCall limits the files of one call, in largest files, because a call may have the same file many times.
const maxPerCall = 4

// callFiles are the files of one call. It implements tools.Files.
type callFiles struct {
	section *Section
	owner   files.Owner
	files   []callFile
	call    string // identifies the call and its repetitions
	would   logonly.Would
}

// Would returns what an inspector in log only would have done about the files. See route.Caller.
func (c *callFiles) Would() logonly.Would { return c.would }

type callFile struct {
	files.File
	argument, handle string // the argument is an object with the handle
}

var errTooMany = &files.Refusal{Status: http.StatusRequestEntityTooLarge, Message: "the call has too many files or too large ones: make several calls"}

// Read implements route.Uploads.
func (s *Section) Read(by *route.Uploader, i *route.Inspection, known *tools.Call, set *tools.Toolset, name string, arguments []byte) tools.Prepared {
	if known != nil && known.Files != nil {
		c := known.Files.(*callFiles)
		arguments = c.replace(arguments, func(f *callFile, _ bool) jsontext.Value { return jsontext.Value(f.argument) })
	}
	if t, ok := set.Tool(name); ok {
		var err error
		if arguments, err = s.handles(by, t, arguments); err != nil {
			failed := tools.Unprepared(name, arguments, s.failure(err))
			failed.Tool = t
			return failed
		}
	}
	p := tools.Prepare(set, name, arguments)
	if p.Tool == nil {
		return p
	}
	c := &callFiles{section: s}
	if err := c.find(by, i, p.Tool, p.Arguments); err != nil {
		failed := tools.Unprepared(name, p.Arguments, s.failure(err))
		failed.Tool = p.Tool
		return failed
	}
	c.would = i.Would
	if call := p.Call(); call != nil && len(c.files) > 0 {
		call.Files, p.Arguments = c, c.describe(p.Arguments, call.Values())
	}
	return p
}

// Names implements route.Uploads.
func (s *Section) Names(arguments []byte) bool {
	return bytes.Contains(arguments, []byte(`"`+files.Prefix)) || bytes.Contains(arguments, []byte(`"mcp-file:`)) || bytes.Contains(arguments, []byte(`"download_url"`))
}

// handles returns arguments with handles in place of the URIs of uploads and of files of ChatGPT, where they can be. It also takes a handle
// that a model has given as a text, or with other members. At the first file that cannot be downloaded it stops.
func (s *Section) handles(by *route.Uploader, t *tools.Tool, arguments jsontext.Value) (_ jsontext.Value, err error) {
	if strictjson.Check(arguments) != nil || arguments.Kind() != '{' {
		return arguments, nil // tools.Prepare reports it
	}
	ctx, cancel := context.WithTimeout(by.Context(), fetchTime)
	defer cancel()
	downloads := 0
	var all strictjson.ObjectBuilder
	for members := strictjson.Into(arguments); members.Next(); {
		name, value := string(members.Key()), members.Value
		if limits, ok := limitsOf(t, name); ok {
			value = rewrite(value, true, func(value jsontext.Value, top bool) jsontext.Value {
				handle := cmp.Or(strictjson.Text(value), strictjson.Text(strictjson.MemberOf(value, "upload")))
				handle, isURI := strings.CutPrefix(handle, s.uris)
				switch {
				case err != nil:
					return nil
				case top && strictjson.HasMember(value, "download_url"):
					if downloads++; downloads > maxPerCall {
						err = errTooMany
					} else {
						handle, err = s.download(ctx, by, limits, value)
					}
				case !isURI && !files.IsHandle(handle):
					return nil
				}
				return encode(map[string]any{"upload": handle})
			})
		}
		all.Add(name, value)
	}
	return all.Close(), err
}

// find finds the files that arguments name. It checks that the arguments take them, and that inspectors pass those that are text.
func (c *callFiles) find(by *route.Uploader, i *route.Inspection, t *tools.Tool, arguments []byte) (err error) {
	ctx := by.Context()
	if c.owner, err = c.section.ownerOf(ctx, by); err != nil {
		return err
	}
	for left, members := maxPerCall*c.section.store.MaxSize, strictjson.Into(arguments); members.Next(); {
		limits, ok := limitsOf(t, string(members.Key()))
		if !ok {
			continue
		}
		rewrite(members.Value, true, func(object jsontext.Value, _ bool) jsontext.Value {
			f := callFile{argument: string(object), handle: strictjson.Text(strictjson.MemberOf(object, "upload"))}
			if err != nil || !strings.HasPrefix(f.handle, files.Prefix) {
				return nil
			}
			if f.File, err = c.section.store.Describe(ctx, c.owner, f.handle); err != nil {
				return nil
			}
			if left -= f.Size; left < 0 || len(c.files) == c.section.store.MaxFiles {
				err = errTooMany
			} else if err = limits.Check(f.File); err == nil {
				err = c.inspect(ctx, i, &f)
			}
			c.files = append(c.files, f)
			return nil
		})
	}
	return err
}

// inspect returns a failure if the inspectors of arguments do not pass a file that is text. Of other files they get the description only.
func (c *callFiles) inspect(ctx context.Context, i *route.Inspection, f *callFile) error {
	if !i.Chain.Has(inspect.Arguments) && !i.LogOnly.Has(inspect.Arguments) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	content, err := c.content(ctx, f, "")
	if err != nil {
		return err
	}
	// The uploader chooses the type, so the content says whether it is text too.
	isText := httpheader.IsText(f.Type) || httpheader.IsJSON(f.Type) || utf8.Valid(content) || strings.HasPrefix(http.DetectContentType(content), "text/")
	if !isText {
		return nil
	}
	// UTF-16 has a byte order mark. One byte that is not UTF-8 must not hide the rest: encode replaces it.
	if content, _, err = transform.Bytes(unicode.BOMOverride(transform.Nop), content); err != nil {
		return err
	}
	if err := i.CheckArguments(ctx, encode(map[string]any{"name": f.Name, "type": f.Type, "content": string(content)})); err != nil {
		return &tools.Failure{Kind: tools.Restricted, Message: "The API was not called, because of the file " + f.handle + ": " + err.Error() + "."}
	}
	return nil
}

// describe returns the arguments of a call, and replaces its values, with descriptions in place of handles.
func (c *callFiles) describe(arguments []byte, values []jsontext.Value) []byte {
	describe := func(object jsontext.Value, _ bool) jsontext.Value {
		for i := range c.files {
			if f := &c.files[i]; f.argument == string(object) {
				described, _ := json.Marshal(f.File) // cannot fail: texts and a number
				return described
			}
		}
		return nil
	}
	for i, value := range values {
		values[i] = rewrite(value, true, describe)
	}
	arguments = rewrite(arguments, true, describe)
	canonical := jsontext.Value(arguments).Clone()
	_ = canonical.Canonicalize() // of valid JSON
	sum := sha256.Sum256(canonical)
	c.call = hex.EncodeToString(sum[:])
	return arguments
}

// Fill implements tools.Files. It claims the files for the call.
func (c *callFiles) Fill(ctx context.Context, call *tools.Call, values []jsontext.Value) (err error) {
	plan := &call.Tool.Plan
	for i, value := range values {
		values[i] = c.replace(value, func(f *callFile, top bool) jsontext.Value {
			var content []byte
			if err == nil {
				content, err = c.content(ctx, f, plan.Method+" "+plan.Path+" "+c.call)
			}
			data := strictjson.AppendString(nil, base64.StdEncoding.EncodeToString(content))
			if !top || plan.Arguments[i].In != tools.InBody || !isForm(plan.Body) {
				return data
			}
			var file strictjson.ObjectBuilder
			file.Add("data", data)
			file.Add("filename", strictjson.AppendString(nil, f.Name))
			file.Add("type", strictjson.AppendString(nil, f.Type))
			return file.Close()
		})
	}
	if err != nil {
		return c.section.failure(err)
	}
	return nil
}

// content reads a file. Its memory counts as that of a request body until ctx ends. See files.Store for call.
func (c *callFiles) content(ctx context.Context, f *callFile, call string) ([]byte, error) {
	if err := c.section.bodies.Hold(ctx, c.owner.Share, f.Size); err != nil {
		return nil, err
	}
	return c.section.store.Content(ctx, c.owner, f.handle, f.File, call)
}

// replace replaces the descriptions of files in a value. by gets what top of rewrite says.
func (c *callFiles) replace(value jsontext.Value, by func(f *callFile, top bool) jsontext.Value) jsontext.Value {
	return rewrite(value, true, func(object jsontext.Value, top bool) jsontext.Value {
		var described files.File
		if !strictjson.HasMember(object, "sha256") || json.Unmarshal(object, &described) != nil {
			return nil
		}
		for i := range c.files {
			if c.files[i].File == described {
				return by(&c.files[i], top)
			}
		}
		return nil
	})
}

// rewrite returns a value with others in place of some of its objects and strings. Replace returns nil to keep one, and then gets those in it.
// Top is true for the value itself, or the items of an array.
func rewrite(value jsontext.Value, top bool, replace func(object jsontext.Value, top bool) jsontext.Value) jsontext.Value {
	switch {
	case len(value) > 0 && value[0] == '"':
		if other := replace(value, top); other != nil {
			return other
		}
	case len(value) > 0 && value[0] == '{':
		if other := replace(value, top); other != nil {
			return other
		}
		var object strictjson.ObjectBuilder
		for walk := strictjson.Into(value); walk.Next(); {
			object.Add(string(walk.Key()), rewrite(walk.Value, false, replace))
		}
		return object.Close()
	case len(value) > 0 && value[0] == '[':
		list := []byte{'['}
		for walk := strictjson.Into(value); walk.Next(); {
			list = append(strictjson.Comma(list), rewrite(walk.Value, top, replace)...)
		}
		return append(list, ']')
	}
	return value
}
