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
	Tasks     []string // ids of the tasks to watch (SEP-2663, Task Status Notifications)
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
			if f.Resources, bad = readStrings(walk.Value, "resourceSubscriptions", "URIs of resources"); bad != nil {
				return f, bad
			}
		case walk.Is("taskIds"):
			if f.Tasks, bad = readStrings(walk.Value, "taskIds", "ids of tasks"); bad != nil {
				return f, bad
			}
		}
		if walk.Value.Kind() == 't' {
			f.Changes |= list
		}
	}
	return f, nil
}

// readStrings reads a list of at most MaxWatched strings.
func readStrings(raw jsontext.Value, member, what string) (list []string, bad *jsonrpc.Fault) {
	if raw.Kind() != '[' {
		return nil, jsonrpc.BadParams("params.notifications.%s must be an array of %s", member, what)
	}
	for walk := wire.Into(raw); walk.Next(); {
		entry := wire.Text(walk.Value)
		switch {
		case entry == "":
			return nil, jsonrpc.BadParams("params.notifications.%s must be an array of %s", member, what)
		case len(list) == MaxWatched:
			return nil, jsonrpc.BadParams("params.notifications.%s can have at most %d %s", member, MaxWatched, what)
		}
		list = append(list, entry)
	}
	return list, nil
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
	for _, n := range []struct {
		list []string
		name string
	}{{f.Resources, "resourceSubscriptions"}, {f.Tasks, "taskIds"}} {
		if len(n.list) > 0 {
			dst = wire.AppendStrings(append(append(append(dst, '"'), n.name...), `":`...), n.list)
			dst = append(dst, ',')
		}
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}
