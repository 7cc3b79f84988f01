package ocp

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/siteroutes"
)

// ocpPlaceholder matches the placeholders that only have a value after the ocp handler.
var ocpPlaceholder = regexp.MustCompile(`\{http\.ocp\.[a-zA-Z0-9_.]+\}`)

// lateHandlers replace placeholders after the next handlers have run, or only when another
// handler uses the result. They work before ocp.
var lateHandlers = []string{"log_append", "map", "templates", "intercept", "encode", "ocp"}

// warnIfPlaceholderUsedBefore logs a warning for each handler before ocp that uses one of its placeholders.
// The placeholder has no value at that point, so the handler uses its literal text.
func warnIfPlaceholderUsedBefore(ctx caddy.Context, logger *zap.Logger) {
	siteroutes.EachBefore(ctx, "ocp", func(name string, config []byte) {
		if slices.Contains(lateHandlers, name) {
			return
		}
		message := "handler before ocp uses an OCP placeholder, which has no value there; move the handler after ocp, in a route block"
		if name == "headers" {
			config = withoutDeferred(config)
			message = "handler before ocp uses an OCP placeholder, which has no value there; write 'header >Name ...' to set the header when the response is written"
		}
		if placeholder := ocpPlaceholder.Find(config); placeholder != nil {
			logger.Warn(message, zap.String("handler", name), zap.ByteString("placeholder", placeholder))
		}
	})
}

// withoutDeferred removes the operations of a headers handler that run when the response is
// written.
func withoutDeferred(config []byte) []byte {
	var headers struct {
		Request  json.RawMessage `json:"request"`
		Response json.RawMessage `json:"response"`
	}
	var when struct {
		Deferred bool            `json:"deferred"`
		Require  json.RawMessage `json:"require"`
	}
	if json.Unmarshal(config, &headers) != nil || json.Unmarshal(headers.Response, &when) != nil {
		return config
	}
	if when.Deferred || when.Require != nil {
		return headers.Request
	}
	return config
}
