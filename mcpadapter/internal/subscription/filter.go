package subscription

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/mcpadapter/internal/jsonrpc"
)

// MaxWatched is the maximum number of resources that one client may watch.
const MaxWatched = 64

// A Filter selects the notifications that a client listens for (MCP 2026-07-28, SubscriptionFilter).
type Filter struct {
	Changes   Lists    // lists whose changes the client wants to know
	Resources []string // URIs of the resources to watch
}

// ReadFilter reads params.notifications of subscriptions/listen. It ignores unknown members.
func ReadFilter(raw jsontext.Value) (f Filter, bad *jsonrpc.Fault) {
	for walk := wire.Into(raw); walk.Next(); {
		var list Lists
		switch {
		case walk.Is("toolsListChanged"):
			list = Tools
		case walk.Is("promptsListChanged"):
			list = Prompts
		case walk.Is("resourcesListChanged"):
			list = Resources
		case walk.Is("resourceSubscriptions"):
			if f.Resources, bad = readURIs(walk.Value); bad != nil {
				return f, bad
			}
		}
		if walk.Value.Kind() == 't' {
			f.Changes |= list
		}
	}
	return f, nil
}

func readURIs(raw jsontext.Value) (uris []string, bad *jsonrpc.Fault) {
	if raw.Kind() != '[' {
		return nil, jsonrpc.BadParams("params.notifications.resourceSubscriptions must be an array of URIs")
	}
	for walk := wire.Into(raw); walk.Next(); {
		uri := wire.Text(walk.Value)
		switch {
		case uri == "":
			return nil, jsonrpc.BadParams("params.notifications.resourceSubscriptions must be an array of URIs")
		case len(uris) == MaxWatched:
			return nil, jsonrpc.BadParams("at most %d resources can be watched at once", MaxWatched)
		}
		uris = append(uris, uri)
	}
	return uris, nil
}

// AppendTo appends the accepted filter as JSON.
func (f *Filter) AppendTo(dst []byte) []byte {
	dst = append(dst, '{')
	for _, n := range []struct {
		list Lists
		name string
	}{{Tools, "toolsListChanged"}, {Prompts, "promptsListChanged"}, {Resources, "resourcesListChanged"}} {
		if f.Changes&n.list != 0 {
			dst = append(append(append(dst, '"'), n.name...), `":true,`...)
		}
	}
	if len(f.Resources) > 0 {
		dst = append(dst, `"resourceSubscriptions":[`...)
		for _, uri := range f.Resources {
			dst = append(wire.AppendString(dst, uri), ',')
		}
		dst = append(dst[:len(dst)-1], "],"...)
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}
