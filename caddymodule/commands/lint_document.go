package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi2conv"
	"github.com/getkin/kin-openapi/openapi3"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools/openapi"
)

const (
	maxLintRefs = 50  // broken $refs that are reported individually
	maxLintLine = 500 // bytes of one finding
)

// unmarshalError matches the validator's message about a value of the wrong JSON type.
// It captures the type, and the Go field or type that the value was decoded into.
var unmarshalError = regexp.MustCompile(`cannot unmarshal (\S+) into .*?(?:openapi[23]\.|field )([\w.]+)`)

// lintDocument returns where a document violates its specification, one line per finding. It is
// stricter than Read and only informs: a document with findings may work without
// problems. Other files are not read.
func lintDocument(ctx context.Context, data []byte) (findings []string) {
	document, err := openapi.Read(data, openapi.Options{})
	if err != nil {
		return []string{err.Error()}
	}
	findings = slices.Clone(document.Warnings)
	broken := brokenRefs(document.Root())
	findings = append(findings, broken...)
	if len(broken) > 0 {
		return append(findings, "the rest was not checked, as it takes every $ref to lead somewhere")
	}
	if misplaced := wrongKinds(document.Root()); len(misplaced) > 0 {
		return append(append(findings, misplaced...), "the rest was not checked, as the validator reads only documents of the right structure")
	}
	if err := validate(ctx, document); err != nil {
		findings = append(findings, lintLine(err))
	}
	return findings
}

// brokenRefs returns a finding for each $ref whose target is missing, is circular, or is
// reached through too many other $refs. The validator takes quadratic time for such
// chains.
func brokenRefs(root openapi.Place) (findings []string) {
	seen := make(map[string]bool)
	visitDocument(root, "", false, func(p openapi.Place, _ string, names bool) {
		if ref := string(p.Get("$ref").Raw()); !names && p.IsRef() && !seen[ref] && len(findings) < maxLintRefs {
			seen[ref] = true
			if _, err := p.Resolve(); err != nil {
				findings = append(findings, lintLine(err))
			}
		}
	})
	return findings
}

// validate runs the validator of kin-openapi over the document's JSON, within the limits
// of Parse. It does not check examples and defaults: a recursive schema with one of them
// makes the validator overflow the stack, which cannot be recovered from.
func validate(ctx context.Context, document *openapi.Document) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("the validator failed: %v", reason)
		}
	}()
	data := document.Root().AppendJSON(nil)
	loader := openapi3.NewLoader()
	loader.Context = ctx
	loader.IsExternalRefsAllowed = false
	var doc *openapi3.T
	if document.Root().File.Version == openapi.Swagger20 {
		doc, err = convert(loader, data)
	} else {
		doc, err = loader.LoadFromData(data)
	}
	if err != nil {
		return err
	}
	return doc.Validate(ctx,
		openapi3.DisableExamplesValidation(),
		openapi3.DisableSchemaDefaultsValidation(),
	)
}

// convert converts Swagger 2.0 to OpenAPI 3.0.
func convert(loader *openapi3.Loader, data []byte) (*openapi3.T, error) {
	var old openapi2.T
	if err := json.Unmarshal(data, &old); err != nil {
		return nil, err
	}
	return openapi2conv.ToV3WithLoader(&old, loader, nil)
}

// lintLine returns the first line of a message, shortened if it is too long.
func lintLine(err error) string {
	if wrong := unmarshalError.FindStringSubmatch(err.Error()); wrong != nil {
		return text.Cut(fmt.Sprintf("not checked to the end: the document has a value of the wrong type (%s) in %s", wrong[1], wrong[2]), maxLintLine)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return "not checked to the end: " + err.Error()
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return text.Cut(line, maxLintLine)
}
