package plainrequest

import (
	"context"
	"io"
	"mime"
	"mime/multipart"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools"
)

// formParts returns the file names and contents of the parts of a call's body, by
// the parts' names.
func formParts(t *testing.T, tool *tools.Tool, arguments string) map[string][2]string {
	t.Helper()
	call, err := tool.Bind([]byte(arguments))
	if err != nil {
		t.Fatal(err)
	}
	request, err := call.Request(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	_, parameters, err := mime.ParseMediaType(request.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	reader, parts := multipart.NewReader(request.Body, parameters["boundary"]), make(map[string][2]string)
	for {
		part, err := reader.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		parts[part.FormName()] = [2]string{part.FileName(), string(content)}
	}
	if request, err = call.Request(context.Background()); err != nil {
		t.Fatal(err)
	}
	checkRoundTrip(t, call, request, []byte(arguments))
	return parts
}

// TestUpload_declared_as_text_has_a_file_name where the form has no other file. Text
// stays possible.
func TestUpload_declared_as_text_has_a_file_name(t *testing.T) {
	for _, c := range []struct {
		rule, properties, property string
		file                       bool
	}{
		{"by name", `"cover_image":{"type":"string"}`, "cover_image", true},
		{"by name in camel case", `"coverImage":{"type":"string"}`, "coverImage", true},
		{"by description", `"content":{"type":"string","description":"The file to upload."}`, "content", true},
		{"bytes", `"content":{"type":"string","format":"byte"}`, "content", true},
		{"a name of a file", `"filename":{"type":"string"}`, "filename", false},
		{"a choice", `"file":{"type":"string","enum":["{\"data\":\"aGk=\"}"]}`, "file", false},
		{"a date", `"file":{"type":"string","format":"date"}`, "file", false},
		{"beside a declared file", `"file":{"type":"string"},"other":{"type":"string","format":"binary"}`, "file", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			tool, _ := buildTools(t, withBody("post", `"multipart/form-data":{"schema":{"type":"object","properties":{`+c.properties+`}}}`), tools.BuildOptions{}).Tool("a")
			if _, err := tool.Bind([]byte(`{"` + c.property + `":{"data":"aGk=","filename":"a.png"}}`)); (err == nil) != c.file {
				t.Fatal(err)
			}
			if !c.file {
				return
			}
			if got := formParts(t, tool, `{"`+c.property+`":{"data":"aGk=","filename":"a.png","type":"image/png"}}`)[c.property]; got != [2]string{"a.png", "hi"} {
				t.Errorf("the file is sent as %q", got)
			}
			if got := formParts(t, tool, `{"`+c.property+`":{"data":"aGk="}}`)[c.property]; got[0] == "" || got[1] != "hi" {
				t.Errorf("a file without a name is sent as %q", got)
			}
			if got := formParts(t, tool, `{"`+c.property+`":"hi"}`)[c.property]; got != [2]string{"", "hi"} {
				t.Errorf("text is sent as %q", got)
			}
		})
	}
}

// TestUpload_of_real_documents_has_a_file_name for documents that declare files in
// other ways than OpenAPI 3.0 has it.
func TestUpload_of_real_documents_has_a_file_name(t *testing.T) {
	for name, c := range map[string]struct{ tool, arguments, file string }{
		"stripe.json":      {"PostFiles", `{"purpose":"dispute_evidence","file":{"data":"aGk=","filename":"a.pdf"}}`, "file"},
		"discord-3.1.json": {"upload_application_attachment", `{"application_id":"1","file":{"data":"aGk=","filename":"a.pdf"}}`, "file"},
	} {
		tool, ok := buildTools(t, string(testkit.ReadDocument(t, "openapi/"+name+".gz")), tools.BuildOptions{}).Tool(c.tool)
		if !ok {
			t.Errorf("%s has no tool %s", name, c.tool)
			continue
		}
		if got := formParts(t, tool, c.arguments)[c.file]; got != [2]string{"a.pdf", "hi"} {
			t.Errorf("%s: the file is sent as %q", name, got)
		}
	}
}
