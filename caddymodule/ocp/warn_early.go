package ocp

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// ocpPlaceholder matches the placeholders that only have a value after the ocp handler.
var ocpPlaceholder = regexp.MustCompile(`\{http\.ocp\.[a-zA-Z0-9_.]+\}`)

// lateHandlers replace placeholders after the next handlers have run, or only when another
// handler uses the result. They work before ocp.
var lateHandlers = []string{"log_append", "map", "templates", "intercept", "encode", "ocp"}

// earlyUse is a handler that runs before ocp and uses one of its placeholders.
type earlyUse struct{ handler, placeholder string }

// warnIfPlaceholderUsedBefore logs a warning for each handler before ocp that uses one of its placeholders.
// The placeholder has no value at that point, so the handler uses its literal text.
func warnIfPlaceholderUsedBefore(ctx caddy.Context, logger *zap.Logger) {
	var uses []earlyUse
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		uses = appendEarlyUses(uses, server.Routes)
	}
	for _, ancestor := range ctx.Modules() {
		if subroute, ok := ancestor.(*caddyhttp.Subroute); ok {
			uses = appendEarlyUses(uses, subroute.Routes)
		}
	}
	for _, use := range uses {
		message := "handler before ocp uses an OCP placeholder, which has no value there; move the handler after ocp, in a route block"
		if use.handler == "headers" {
			message = "handler before ocp uses an OCP placeholder, which has no value there; write 'header >Name ...' to set the header when the response is written"
		}
		logger.Warn(message, zap.String("handler", use.handler), zap.String("placeholder", use.placeholder))
	}
}

// appendEarlyUses appends the uses in handlers that run before the one being provisioned.
// Earlier routes are provisioned. The current route and later ones still have their raw
// configuration.
func appendEarlyUses(uses []earlyUse, routes caddyhttp.RouteList) []earlyUse {
	for i := range routes {
		raw := routes[i].HandlersRaw
		if raw == nil {
			uses = appendProvisionedUses(uses, routes[i].Handlers)
			continue
		}
		for _, handler := range raw {
			var fields any
			if json.Unmarshal(handler, &fields) != nil || containsHandler(fields, "ocp") {
				break // the ocp handler itself, or the subroute that contains it
			}
			uses = appendRawUse(uses, handler)
		}
		return uses
	}
	return uses
}

// appendProvisionedUses inspects provisioned handlers.
func appendProvisionedUses(uses []earlyUse, handlers []caddyhttp.MiddlewareHandler) []earlyUse {
	for _, handler := range handlers {
		if subroute, ok := handler.(*caddyhttp.Subroute); ok {
			for i := range subroute.Routes {
				uses = appendProvisionedUses(uses, subroute.Routes[i].Handlers)
			}
			continue
		}
		module, ok := handler.(caddy.Module)
		if !ok {
			continue
		}
		if config, err := json.Marshal(handler); err == nil {
			uses = appendUse(uses, module.CaddyModule().ID.Name(), config)
		}
	}
	return uses
}

// appendRawUse inspects the raw configuration of one handler.
func appendRawUse(uses []earlyUse, config json.RawMessage) []earlyUse {
	var handler struct {
		Handler string `json:"handler"`
	}
	if json.Unmarshal(config, &handler) != nil {
		return uses
	}
	return appendUse(uses, handler.Handler, config)
}

// appendUse appends the first placeholder of ocp in the configuration of a handler.
func appendUse(uses []earlyUse, name string, config []byte) []earlyUse {
	if slices.Contains(lateHandlers, name) {
		return uses
	}
	if name == "headers" {
		config = withoutDeferred(config)
	}
	if placeholder := ocpPlaceholder.Find(config); placeholder != nil {
		uses = append(uses, earlyUse{name, string(placeholder)})
	}
	return uses
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

// containsHandler reports whether the raw configuration is of the named handler or contains it.
func containsHandler(config any, name string) bool {
	switch config := config.(type) {
	case map[string]any:
		if config["handler"] == name {
			return true
		}
		for _, value := range config {
			if containsHandler(value, name) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(config, func(value any) bool { return containsHandler(value, name) })
	}
	return false
}
