package mcpadapter

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
)

// listPrompts serves prompts/list.
func listPrompts(q *request, w *response) *protocol.Fault {
	c := q.catalog()
	return writeList(listRequest{q, w, "prompts", c}, c.Index().Prompts)
}

// getPrompt serves prompts/get.
func getPrompt(q *request, w *response) *protocol.Fault {
	if q.params.name.Kind() != '"' {
		return protocol.BadParams("params.name must be a string that names a prompt, not %s", strictjson.KindName(q.params.name.Kind()))
	}
	name := strictjson.Text(q.params.name)
	p := q.catalog().Index().ByName[name]
	if p == nil {
		return protocol.BadParams("unknown prompt %q; prompts/list returns the available ones", text.Cut(name, text.MaxQuoted))
	}
	if f := protocol.CheckNeeded(q.site.Access, p.Name, p.Scopes); f != nil {
		return f
	}
	values, f := readArguments(q.params.arguments, "params.arguments")
	if f != nil {
		return f
	}
	if err := p.CheckValues(values); err != nil {
		return protocol.BadParams("%v", err)
	}
	g := promptRequest{q, w, p, values}
	if p.Tool != nil {
		return g.run()
	}
	return g.fill()
}

// A promptRequest is a request of prompts/get with valid arguments.
type promptRequest struct {
	request  *request
	response *response
	prompt   *library.PromptEntry
	values   map[string]string // of the prompt's arguments
}

// readArguments reads an object of strings. It skips null values.
func readArguments(raw jsontext.Value, where string) (map[string]string, *protocol.Fault) {
	values := make(map[string]string)
	switch raw.Kind() {
	case 0, 'n':
		return values, nil
	case '{':
	default:
		return nil, protocol.BadParams("%s must be an object, not %s", where, strictjson.KindName(raw.Kind()))
	}
	for walk := strictjson.Into(raw); walk.Next(); {
		name := strictjson.Text(walk.Name)
		switch walk.Value.Kind() {
		case '"':
			values[name] = strictjson.Text(walk.Value)
		case 'n':
		default:
			return nil, protocol.BadParams("%s.%s must be a string, not %s", where, text.Cut(name, text.MaxQuoted), strictjson.KindName(walk.Value.Kind()))
		}
	}
	return values, nil
}

// maxPromptAnswer is how many bytes all messages of one prompt may have.
const maxPromptAnswer = 16 << 20

// fill writes the messages of a Library prompt with the arguments filled in.
func (g *promptRequest) fill() *protocol.Fault {
	var messages []byte
	for i := range g.prompt.Messages {
		m := &g.prompt.Messages[i]
		messages = append(strictjson.Comma(messages), `{"role":"`...)
		messages = append(append(messages, m.Role...), `","content":`...)
		if room := maxPromptAnswer - len(messages); m.Content.Text.Size(g.values) > room || m.Content.URI.Size(g.values) > room {
			return tooLongPrompt(g.prompt.Name)
		}
		var answered bool
		var f *protocol.Fault
		if messages, answered, f = g.appendContent(messages, &m.Content); f != nil || answered {
			return f
		}
		messages = append(messages, '}')
		if len(messages) > maxPromptAnswer {
			return tooLongPrompt(g.prompt.Name)
		}
	}
	g.answer(g.prompt.Description, messages)
	return nil
}

// tooLongPrompt returns the fault for arguments that make a prompt too long.
func tooLongPrompt(name string) *protocol.Fault {
	return protocol.BadParams("the prompt %s is longer than %d bytes with these arguments; shorten them", name, maxPromptAnswer)
}

// answer writes a GetPromptResult.
func (g *promptRequest) answer(description string, messages []byte) {
	b := g.response.result("complete", nil)
	if description != "" {
		b = append(strictjson.AppendString(append(b, `"description":`...), description), ',')
	}
	b = append(append(b, `"messages":[`...), messages...)
	g.response.end(append(b, ']'))
}

// appendContent appends the content of one message in the client's revision. answered is true
// if the response is already written: a resource made from an operation may need responses from the
// client first.
func (g *promptRequest) appendContent(dst []byte, c *library.PromptContent) (b []byte, answered bool, f *protocol.Fault) {
	switch c.Type {
	case "text":
		return content.AppendText(dst, c.Text.Fill(g.values)), false, nil
	case "image":
		return appendMedia(dst, "image", c), false, nil
	case "audio":
		if !g.request.version.SupportsAudio() {
			return content.AppendText(dst, "[a sound, "+c.MIMEType+"]"), false, nil
		}
		return appendMedia(dst, "audio", c), false, nil
	case "resource_link":
		return g.appendLink(dst, c), false, nil
	}
	t := library.Target{Entry: &library.Entry{}, URI: c.URI.FillURI(g.values)}
	if !c.Inline {
		return g.embedResource(dst, t.URI)
	}
	body := c.Data
	if body == nil {
		body = []byte(c.Text.Fill(g.values))
	}
	dst = append(dst, `{"type":"resource","resource":`...)
	return append(library.AppendContentsOf(dst, t, library.TypeOf(c.MIMEType, body), body, g.request.version), '}'), false, nil
}

func (g *promptRequest) appendLink(dst []byte, c *library.PromptContent) []byte {
	uri := c.URI.FillURI(g.values)
	if !g.request.version.SupportsTitles() {
		return content.AppendText(dst, cmp.Or(c.Name, library.LastPart(uri))+": "+uri)
	}
	dst = append(dst, `{"type":"resource_link",`...)
	dst = library.AppendNamed(dst, cmp.Or(c.Name, library.LastPart(uri)), c.Title, c.Description, g.request.version)
	dst = strictjson.AppendString(append(dst, `,"uri":`...), uri)
	if c.MIMEType != "" {
		dst = strictjson.AppendString(append(dst, `,"mimeType":`...), c.MIMEType)
	}
	return append(dst, '}')
}

// embedResource reads a resource and appends it as an embedded resource.
func (g *promptRequest) embedResource(dst []byte, uri string) (b []byte, answered bool, f *protocol.Fault) {
	q := g.request
	t, ok := q.catalog().Index().Find(uri)
	if !ok {
		return dst, false, asInvalidParams(noResource(uri, q.version))
	}
	r, f := openResource(q, t, "prompts/get", g.prompt.Name)
	if f != nil {
		return dst, false, asInvalidParams(f)
	}
	defer r.Release()
	if r.InputRequired != nil {
		g.response.inputRequired(r.InputRequired)
		return dst, true, nil
	}
	dst = append(dst, `{"type":"resource","resource":`...)
	if r.Native != nil {
		if first := firstItem(strictjson.MemberOf(r.Native, "contents")); first != nil {
			var err error
			if dst, err = q.blocks().AppendResourceContents(dst, first); err == nil {
				return append(dst, '}'), false, nil
			}
		}
		return dst, false, unreadable(uri, "the API returned invalid contents")
	}
	if dst, f = r.appendContents(dst); f != nil {
		return dst, false, f
	}
	return append(dst, '}'), false, nil
}

// asInvalidParams changes the error code "resource not found" to invalid params, because in a prompt the
// URI follows from the arguments.
func asInvalidParams(f *protocol.Fault) *protocol.Fault {
	if f.Code == resourceNotFound {
		f.Code = protocol.InvalidParams
	}
	return f
}

func firstItem(array jsontext.Value) jsontext.Value {
	if walk := strictjson.Into(array); array.Kind() == '[' && walk.Next() {
		return walk.Value
	}
	return nil
}

// run calls the prompt's operation. A native GetPromptResult is passed on; any other response
// becomes one message with the role user.
func (g *promptRequest) run() *protocol.Fault {
	q, p := g.request, g.prompt
	r, f := q.newCall("prompts/get", p.Name, q.wholeCatalog().Callable(p.Tool.Name), p.Call(g.values)).run()
	if f != nil {
		return f
	}
	defer r.Release()
	switch {
	case r.InputRequired != nil:
		g.response.inputRequired(r.InputRequired)
		return nil
	case r.Failure != nil && r.Failure.Kind == tools.InvalidArguments:
		return protocol.BadParams("%s", r.Failure.Message)
	case r.Failure != nil:
		f = protocol.Faultf(http.StatusOK, protocol.InternalError, "%s", r.Failure.Message)
		if r.Failure.Status != 0 {
			f.Data = append(strconv.AppendInt([]byte(`{"status":`), int64(r.Failure.Status), 10), '}')
		}
		return f
	case r.Native != nil:
		return g.answerNative(r.Native)
	}
	form := content.FormOf(r.Result)
	messages := content.AppendResponse([]byte(`{"role":"user","content":`), form, r.Outcome, q.tools, q.version)
	g.answer(p.Description, append(messages, '}'))
	return nil
}

// answerNative writes the messages of a GetPromptResult from the API.
func (g *promptRequest) answerNative(native jsontext.Value) *protocol.Fault {
	p := g.prompt
	list := strictjson.MemberOf(native, "messages")
	if list.Kind() != '[' {
		return protocol.Faultf(http.StatusOK, protocol.InternalError, "the API returned a result without messages for the prompt %s", p.Name)
	}
	var messages []byte
	for walk := strictjson.Into(list); walk.Next(); {
		role := strictjson.Text(strictjson.MemberOf(walk.Value, "role"))
		if role != "user" && role != "assistant" {
			return protocol.Faultf(http.StatusOK, protocol.InternalError, "the API returned a message for the prompt %s whose role is neither user nor assistant", p.Name)
		}
		messages = append(append(append(strictjson.Comma(messages), `{"role":"`...), role...), `","content":`...)
		var err error
		if messages, err = g.request.blocks().AppendBlock(messages, strictjson.MemberOf(walk.Value, "content")); err != nil {
			return protocol.Faultf(http.StatusOK, protocol.InternalError, "the API returned an invalid message for the prompt %s: %v", p.Name, err)
		}
		messages = append(messages, '}')
	}
	g.answer(cmp.Or(strictjson.Text(strictjson.MemberOf(native, "description")), p.Description), messages)
	return nil
}

func appendMedia(dst []byte, kind string, c *library.PromptContent) []byte {
	dst = append(append(append(dst, `{"type":"`...), kind...), `","data":"`...)
	dst = base64.StdEncoding.AppendEncode(dst, c.Data)
	return append(strictjson.AppendString(append(dst, `","mimeType":`...), c.MIMEType), '}')
}
