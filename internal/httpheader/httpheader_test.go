package httpheader_test

import (
	"testing"

	"github.com/fairwayhq/fairway/internal/httpheader"
)

// TestForwarded_headers_that_are_listed checks that each header is either accepted by CheckForwarded and then forwarded, or refused.
func TestForwarded_headers_that_are_listed(t *testing.T) {
	for name, accepted := range map[string]bool{
		"Accept-Language": true, "If-None-Match": true, "Origin": true, "Accept-Profile": true, "Content-Profile": true, "X-Tenant": true, "Sec-Gpc": true,
		"Accept": false, "accept-encoding": false, "Content-Type": false, "Range": false, "Host": false, "Mcp-Session-Id": false,
		"Transfer-Encoding": false, "Upgrade": false, "X-Original-Url": false,
	} {
		if err := httpheader.CheckForwarded(name); (err == nil) != accepted {
			t.Errorf("%s: error %v, want accepted: %t", name, err, accepted)
		}
		if accepted && !httpheader.Forwarded(name, nil, name) {
			t.Errorf("%s is accepted and not forwarded", name)
		}
	}
}

func TestOf(t *testing.T) {
	for name, want := range map[string]httpheader.Kind{
		"X-HTTP-Method-Override": httpheader.MethodOverride,
		"x_http_method_override": httpheader.MethodOverride,
		"Method-Override":        httpheader.MethodOverride,
		"X-Override-Method":      httpheader.MethodOverride,
		"X-Original-URL":         httpheader.PathOverride,
		"X.Rewrite_Url":          httpheader.PathOverride,
		"X-HTTP-Path-Override":   httpheader.PathOverride,
		"PATH_INFO":              httpheader.PathOverride,
		"X!Original!URL":         httpheader.PathOverride,
		"X*HTTP~Method+Override": httpheader.MethodOverride,
		"X-Rewrite-Path":         httpheader.PathOverride,
		"upgrade":                httpheader.ProtocolSwitch,
		"X-Forwarded-Uri":        httpheader.ForwardedTarget,
		"X_Forwarded_Path":       httpheader.ForwardedTarget,
		"X-Original-URI":         httpheader.ForwardedTarget,
		"X-Original-Method":      httpheader.ForwardedTarget,
		"X-Forwarded-Method":     httpheader.ForwardedTarget,
		"X-Forwarded-For":        httpheader.Ordinary,
		"X-Forwarded-Host":       httpheader.Ordinary,
		"X-Forwarded-Proto":      httpheader.Ordinary,
		"Forwarded":              httpheader.Ordinary,
		"User-Agent":             httpheader.Ordinary,
		"OCP-Current-Goal":       httpheader.Ordinary,
		"Authorization":          httpheader.Ordinary,
		"X-Request-Id":           httpheader.Ordinary,
		"":                       httpheader.Ordinary,
	} {
		if got := httpheader.KindOf(name); got != want {
			t.Errorf("%q: got %d, want %d", name, got, want)
		}
	}
}
