package headerkind_test

import (
	"testing"

	"github.com/fairwayhq/fairway/internal/headerkind"
)

func TestOf(t *testing.T) {
	for name, want := range map[string]headerkind.Kind{
		"X-HTTP-Method-Override": headerkind.MethodOverride,
		"x_http_method_override": headerkind.MethodOverride,
		"Method-Override":        headerkind.MethodOverride,
		"X-Override-Method":      headerkind.MethodOverride,
		"X-Original-URL":         headerkind.PathOverride,
		"X.Rewrite_Url":          headerkind.PathOverride,
		"X-HTTP-Path-Override":   headerkind.PathOverride,
		"PATH_INFO":              headerkind.PathOverride,
		"X!Original!URL":         headerkind.PathOverride,
		"X*HTTP~Method+Override": headerkind.MethodOverride,
		"X-Rewrite-Path":         headerkind.PathOverride,
		"upgrade":                headerkind.ProtocolSwitch,
		"X-Forwarded-Uri":        headerkind.ForwardedTarget,
		"X_Forwarded_Path":       headerkind.ForwardedTarget,
		"X-Original-URI":         headerkind.ForwardedTarget,
		"X-Original-Method":      headerkind.ForwardedTarget,
		"X-Forwarded-Method":     headerkind.ForwardedTarget,
		"X-Forwarded-For":        headerkind.Ordinary,
		"X-Forwarded-Host":       headerkind.Ordinary,
		"X-Forwarded-Proto":      headerkind.Ordinary,
		"Forwarded":              headerkind.Ordinary,
		"User-Agent":             headerkind.Ordinary,
		"OCP-Current-Goal":       headerkind.Ordinary,
		"Authorization":          headerkind.Ordinary,
		"X-Request-Id":           headerkind.Ordinary,
		"":                       headerkind.Ordinary,
	} {
		if got := headerkind.Of(name); got != want {
			t.Errorf("%q: got %d, want %d", name, got, want)
		}
	}
}
