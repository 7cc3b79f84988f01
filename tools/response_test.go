package tools

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/testkit"
)

func TestCheckResponse(t *testing.T) {
	tool, _ := buildTools(t, testkit.Shop, BuildOptions{ResponseSchemas: true}).Tool("getOrder")
	for body, want := range map[string]string{
		`{"id":1}`: "", `{}`: "/id: missing", `[]`: "whole: object", `{`: "JSON",
	} {
		err := tool.CheckResponse(jsontext.Value(body))
		if (err == nil) != (want == "") || err != nil && !testkit.ContainsAll(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", body, err, want)
		}
	}
	tool, _ = buildTools(t, testkit.Shop, BuildOptions{}).Tool("getOrder")
	if err := tool.CheckResponse(jsontext.Value(`[]`)); err != nil {
		t.Error(err)
	}
}
