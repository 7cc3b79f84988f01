package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestSharedDocuments(t *testing.T) {
	for name, count := range testkit.Documents() {
		t.Run(name, func(t *testing.T) {
			d, err := Read(testkit.ReadDocument(t, "openapi/"+name+".gz"), Options{Location: name})
			if err != nil {
				t.Fatal(err)
			}
			operations := d.Operations()
			if len(operations) != count {
				t.Errorf("%d operations, want %d", len(operations), count)
			}
			if len(d.Warnings) > 0 {
				t.Errorf("warnings %q", d.Warnings)
			}
			for _, op := range operations {
				op.Warnings = slices.DeleteFunc(op.Warnings, func(warning string) bool {
					return strings.Contains(warning, "files.stripe.com") || strings.Contains(warning, "uploads.github.com")
				})
				if op.Err != nil || len(op.Warnings) > 0 {
					t.Errorf("%s %s: %v %q", op.Method, op.Path, op.Err, op.Warnings)
				}
			}
		})
	}
}

// TestShared_documents_agree_with_kin compares what each operation takes with what
// kin-openapi reads from the same document.
func TestShared_documents_agree_with_kin(t *testing.T) {
	for name := range testkit.Documents() {
		if name == "slack-web-v2.json" {
			continue // kin-openapi does not load it
		}
		t.Run(name, func(t *testing.T) {
			data := testkit.ReadDocument(t, "openapi/"+name+".gz")
			oracle := kin(t, name, data)
			d, err := Read(data, Options{})
			if err != nil {
				t.Fatal(err)
			}
			swagger := d.root.File.Version == Swagger20
			for _, op := range d.Operations() {
				item := oracle.Paths.Value(op.Path)
				theirs := item.GetOperation(op.Method)
				if theirs == nil {
					t.Errorf("%s %s: kin has no such operation", op.Method, op.Path)
					continue
				}
				label := op.Method + " " + op.Path
				equal(t, label+" parameters", oursAsKin(op, swagger), kinParameters(t, item, theirs, swagger))
				if types, ok := kinTypes(theirs, swagger); ok {
					equal(t, label+" body", ourTypes(op), types)
				}
			}
		})
	}
}

// kin reads a document with kin-openapi.
func kin(t testing.TB, name string, data []byte) *openapi3.T {
	t.Helper()
	loader := openapi3.NewLoader()
	loader.Context = context.Background()
	var doc *openapi3.T
	var err error
	if name == "kubernetes-1.33-swagger-2.0.json" {
		var old openapi2.T
		if err = json.Unmarshal(data, &old); err == nil {
			doc, err = openapi2conv.ToV3WithLoader(&old, loader, nil)
		}
	} else {
		doc, err = loader.LoadFromData(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// oursAsKin describes parameters without what is known to differ: Swagger's
// collectionFormat, which the converter gets wrong where it is absent or tsv.
func oursAsKin(op Operation, swagger bool) []string {
	var lines []string
	for _, p := range op.Parameters {
		line := parameterLine(p)
		if swagger {
			line = fmt.Sprintf("%s %s %v", p.In, p.Name, p.Required)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func kinParameters(t *testing.T, item *openapi3.PathItem, operation *openapi3.Operation, swagger bool) []string {
	t.Helper()
	all := make(map[string]string)
	for _, list := range []openapi3.Parameters{item.Parameters, operation.Parameters} {
		for _, ref := range list {
			p := ref.Value
			if p.In == "header" && isOwnHeader(p.Name) {
				continue
			}
			all[p.In+" "+p.Name] = kinLine(t, p, swagger)
		}
	}
	var lines []string
	for _, line := range all {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func kinLine(t *testing.T, p *openapi3.Parameter, swagger bool) string {
	t.Helper()
	if swagger {
		return fmt.Sprintf("%s %s %v", p.In, p.Name, p.Required)
	}
	line := Parameter{Name: p.Name, In: p.In, Required: p.Required, Deprecated: p.Deprecated, AllowReserved: p.AllowReserved}
	if p.Schema == nil {
		for mediaType := range p.Content {
			line.ContentType = mediaType
		}
		return parameterLine(line)
	}
	method, err := p.SerializationMethod()
	if err != nil {
		t.Fatal(err)
	}
	line.Style, line.Explode = method.Style, method.Explode
	if p.Explode == nil && method.Style != "form" && method.Style != "deepObject" {
		line.Explode = false // kin takes the default of form for every style
	}
	return parameterLine(line)
}

func ourTypes(op Operation) []string {
	if op.Body == nil {
		return nil
	}
	types := []string{fmt.Sprintf("required %v", op.Body.Required)}
	for _, media := range op.Body.Content {
		types = append(types, media.Type)
	}
	slices.Sort(types)
	return types
}

// kinTypes returns false if the converter lost the media types: a body that
// several Swagger operations refer to gets those of the document, not theirs.
func kinTypes(operation *openapi3.Operation, swagger bool) ([]string, bool) {
	if operation.RequestBody == nil {
		return nil, true
	}
	if swagger && operation.RequestBody.Ref != "" {
		return nil, false
	}
	body := operation.RequestBody.Value
	types := []string{fmt.Sprintf("required %v", body.Required)}
	for mediaType := range body.Content {
		types = append(types, mediaType)
	}
	slices.Sort(types)
	return types, true
}
