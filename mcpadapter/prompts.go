package mcpadapter

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// A promptRequest is a request to list prompts or get one.
type promptRequest struct{ *message }

// listPrompts serves prompts/list.
func (q promptRequest) listPrompts() *jsonrpc.Fault {
	c := q.catalog()
	var items []listed
	for _, p := range c.Index().Prompts {
		if !p.Denied {
			items = append(items, p)
		}
	}
	return listRequest{q.message, "prompts", c}.write(items)
}

// getPrompt serves prompts/get.
func (q promptRequest) getPrompt() *jsonrpc.Fault {
	if q.params.name.Kind() != '"' {
		return jsonrpc.BadParams("params.name must be a string that names a prompt, not %s", wire.KindName(q.params.name.Kind()))
	}
	name := wire.Text(q.params.name)
	p := q.catalog().Index().ByName[name]
	if p == nil {
		return jsonrpc.BadParams("unknown prompt %q; prompts/list returns the available ones", text.Cut(name, text.MaxQuoted))
	}
	values, f := readArguments(q.params.arguments, "params.arguments")
	if f != nil {
		return f
	}
	if err := p.CheckValues(values); err != nil {
		return jsonrpc.BadParams("%v", err)
	}
	if p.Tool != nil {
		return q.runPrompt(p, values)
	}
	return q.fillPrompt(p, values)
}

// readArguments reads an object of strings. It skips null values.
func readArguments(raw jsontext.Value, where string) (map[string]string, *jsonrpc.Fault) {
	values := make(map[string]string)
	switch raw.Kind() {
	case 0, 'n':
		return values, nil
	case '{':
	default:
		return nil, jsonrpc.BadParams("%s must be an object, not %s", where, wire.KindName(raw.Kind()))
	}
	for walk := wire.Into(raw); walk.Next(); {
		name := wire.Text(walk.Name)
		switch walk.Value.Kind() {
		case '"':
			values[name] = wire.Text(walk.Value)
		case 'n':
		default:
			return nil, jsonrpc.BadParams("%s.%s must be a string, not %s", where, text.Cut(name, text.MaxQuoted), wire.KindName(walk.Value.Kind()))
		}
	}
	return values, nil
}

// maxPromptAnswer is how many bytes all messages of one prompt may have.
const maxPromptAnswer = 16 << 20

// fillPrompt writes the messages of a Library prompt with the arguments filled in.
func (q promptRequest) fillPrompt(p *library.PromptEntry, values map[string]string) *jsonrpc.Fault {
	var messages []byte
	for i := range p.Messages {
		m := &p.Messages[i]
		if i > 0 {
			messages = append(messages, ',')
		}
		messages = append(messages, `{"role":"`...)
		messages = append(append(messages, m.Role...), `","content":`...)
		if room := maxPromptAnswer - len(messages); m.Content.Text.Size(values) > room || m.Content.URI.Size(values) > room {
			return tooLongPrompt(p.Name)
		}
		var answered bool
		var f *jsonrpc.Fault
		if messages, answered, f = q.appendPromptContent(messages, &m.Content, p, values); f != nil || answered {
			return f
		}
		messages = append(messages, '}')
		if len(messages) > maxPromptAnswer {
			return tooLongPrompt(p.Name)
		}
	}
	q.answerPrompt(p.Description, messages)
	return nil
}

// tooLongPrompt returns the fault for arguments that make a prompt too long.
func tooLongPrompt(name string) *jsonrpc.Fault {
	return jsonrpc.BadParams("the prompt %s is longer than %d bytes with these arguments; shorten them", name, maxPromptAnswer)
}

// answerPrompt writes a GetPromptResult.
func (q promptRequest) answerPrompt(description string, messages []byte) {
	b := q.appendResultHead(q.beginResult(), "complete", nil)
	if description != "" {
		b = append(wire.AppendString(append(b, `"description":`...), description), ',')
	}
	b = append(append(b, `"messages":[`...), messages...)
	q.out.B = append(b, "]}}"...)
}

// appendPromptContent appends the content of one message in the client's revision. answered is true
// if the response is already written: a resource made from an operation may need responses from the
// client first.
func (q promptRequest) appendPromptContent(dst []byte, c *library.PromptContent, p *library.PromptEntry, values map[string]string) (b []byte, answered bool, f *jsonrpc.Fault) {
	switch c.Type {
	case "text":
		return content.AppendText(dst, c.Text.Fill(values)), false, nil
	case "image":
		return appendMedia(dst, "image", c), false, nil
	case "audio":
		if !q.version.SupportsAudio() {
			return content.AppendText(dst, "[a sound, "+c.MIMEType+"]"), false, nil
		}
		return appendMedia(dst, "audio", c), false, nil
	case "resource_link":
		return q.appendPromptLink(dst, c, values), false, nil
	}
	t := library.Target{Entry: &library.Entry{}, URI: c.URI.FillURI(values)}
	if !c.Inline {
		return q.embedResource(dst, t.URI, p)
	}
	body := c.Data
	if body == nil {
		body = []byte(c.Text.Fill(values))
	}
	dst = append(dst, `{"type":"resource","resource":`...)
	return append(library.AppendContentsOf(dst, t, library.TypeOf(c.MIMEType, body), body, q.version), '}'), false, nil
}

func (q promptRequest) appendPromptLink(dst []byte, c *library.PromptContent, values map[string]string) []byte {
	uri := c.URI.FillURI(values)
	if !q.version.SupportsTitles() {
		return content.AppendText(dst, cmp.Or(c.Name, library.LastPart(uri))+": "+uri)
	}
	dst = append(dst, `{"type":"resource_link",`...)
	dst = library.AppendNamed(dst, cmp.Or(c.Name, library.LastPart(uri)), c.Title, c.Description, q.version)
	dst = wire.AppendString(append(dst, `,"uri":`...), uri)
	if c.MIMEType != "" {
		dst = wire.AppendString(append(dst, `,"mimeType":`...), c.MIMEType)
	}
	return append(dst, '}')
}

// embedResource reads a resource and appends it as an embedded resource.
func (q promptRequest) embedResource(dst []byte, uri string, p *library.PromptEntry) (b []byte, answered bool, f *jsonrpc.Fault) {
	resources := resourceRequest(q)
	t, ok := q.catalog().Index().Find(uri)
	if !ok {
		return dst, false, asInvalidParams(resources.noResource(uri))
	}
	r, f := resources.openResource(t, "prompts/get", p.Name)
	if f != nil {
		return dst, false, asInvalidParams(f)
	}
	defer r.Release()
	if r.InputRequired != nil {
		q.writeInputRequired(r.reply)
		return dst, true, nil
	}
	dst = append(dst, `{"type":"resource","resource":`...)
	if r.Native != nil {
		if first := firstItem(wire.MemberOf(r.Native, "contents")); first != nil {
			var err error
			if dst, err = q.blocks().AppendResourceContents(dst, first); err == nil {
				return append(dst, '}'), false, nil
			}
		}
		return dst, false, resources.unreadable(uri, "the API returned invalid contents")
	}
	if dst, f = resources.appendContents(dst, r); f != nil {
		return dst, false, f
	}
	return append(dst, '}'), false, nil
}

// asInvalidParams changes the error code "resource not found" to invalid params, because in a prompt the
// URI follows from the arguments.
func asInvalidParams(f *jsonrpc.Fault) *jsonrpc.Fault {
	if f.Code == resourceNotFound {
		f.Code = jsonrpc.InvalidParams
	}
	return f
}

func firstItem(array jsontext.Value) jsontext.Value {
	if walk := wire.Into(array); array.Kind() == '[' && walk.Next() {
		return walk.Value
	}
	return nil
}

// runPrompt calls the prompt's operation. A native GetPromptResult is passed on; any other response
// becomes one message with the role user.
func (q promptRequest) runPrompt(p *library.PromptEntry, values map[string]string) *jsonrpc.Fault {
	r, f := q.invoke(invocation{method: "prompts/get", target: p.Name, name: p.Tool.Name, callable: q.wholeCatalog().Callable(p.Tool.Name), arguments: p.Call(values)})
	if f != nil {
		return f
	}
	defer r.Release()
	switch {
	case r.InputRequired != nil:
		q.writeInputRequired(r)
		return nil
	case r.Failure != nil && r.Failure.Kind == tool.InvalidArguments:
		return jsonrpc.BadParams("%s", r.Failure.Message)
	case r.Failure != nil:
		f = jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "%s", r.Failure.Message)
		if r.Failure.Status != 0 {
			f.Data = append(strconv.AppendInt([]byte(`{"status":`), int64(r.Failure.Status), 10), '}')
		}
		return f
	case r.Native != nil:
		return q.answerNativePrompt(p, r.Native)
	}
	form := content.FormOf(r.Result)
	messages := content.AppendResponse([]byte(`{"role":"user","content":`), form, r.Outcome, q.tools, q.version)
	q.answerPrompt(p.Description, append(messages, '}'))
	return nil
}

// answerNativePrompt writes the messages of a GetPromptResult from the API.
func (q promptRequest) answerNativePrompt(p *library.PromptEntry, native jsontext.Value) *jsonrpc.Fault {
	list := wire.MemberOf(native, "messages")
	if list.Kind() != '[' {
		return jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "the API returned a result without messages for the prompt %s", p.Name)
	}
	var messages []byte
	for walk := wire.Into(list); walk.Next(); {
		role := wire.Text(wire.MemberOf(walk.Value, "role"))
		if role != "user" && role != "assistant" {
			return jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "the API returned a message for the prompt %s whose role is neither user nor assistant", p.Name)
		}
		if messages != nil {
			messages = append(messages, ',')
		}
		messages = append(append(append(messages, `{"role":"`...), role...), `","content":`...)
		var err error
		if messages, err = q.blocks().AppendBlock(messages, wire.MemberOf(walk.Value, "content")); err != nil {
			return jsonrpc.Faultf(http.StatusOK, jsonrpc.InternalError, "the API returned an invalid message for the prompt %s: %v", p.Name, err)
		}
		messages = append(messages, '}')
	}
	q.answerPrompt(cmp.Or(wire.Text(wire.MemberOf(native, "description")), p.Description), messages)
	return nil
}

func appendMedia(dst []byte, kind string, c *library.PromptContent) []byte {
	dst = append(append(append(dst, `{"type":"`...), kind...), `","data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, c.Data)
	return append(wire.AppendString(append(dst, `","mimeType":`...), c.MIMEType), '}')
}
