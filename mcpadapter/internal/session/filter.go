package session

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// MaxWatched is the maximum number of resources that one client may watch.
const MaxWatched = 64

// A Filter selects the notifications that a client listens for (MCP 2026-07-28, SubscriptionFilter).
type filter struct {
	Changes   Lists    // lists whose changes the client wants to know
	Resources []string // URIs of the resources to watch
	Tasks     []string // ids of the tasks to watch (SEP-2663, Task Status Notifications)
}

// filterMembers are the members that select changes of lists.
var filterMembers = []struct {
	list Lists
	name string
}{{Tools, "toolsListChanged"}, {Prompts, "promptsListChanged"}, {Resources, "resourcesListChanged"}, {Events, "eventsListChanged"}}

// ReadFilter reads params.notifications of subscriptions/listen. It ignores unknown members.
func ReadFilter(raw jsontext.Value) (f filter, bad *protocol.Fault) {
	for walk := strictjson.Into(raw); walk.Next(); {
		for _, n := range filterMembers {
			if walk.Is(n.name) && walk.Value.Kind() == 't' {
				f.Changes |= n.list
			}
		}
		switch {
		case walk.Is("resourceSubscriptions"):
			if f.Resources, bad = readStrings(walk.Value, "resourceSubscriptions", "URIs of resources"); bad != nil {
				return f, bad
			}
		case walk.Is("taskIds"):
			if f.Tasks, bad = readStrings(walk.Value, "taskIds", "ids of tasks"); bad != nil {
				return f, bad
			}
		}
	}
	return f, nil
}

// readStrings reads a list of at most MaxWatched strings.
func readStrings(raw jsontext.Value, member, what string) (list []string, bad *protocol.Fault) {
	if raw.Kind() != '[' {
		return nil, protocol.BadParams("params.notifications.%s must be an array of %s", member, what)
	}
	for walk := strictjson.Into(raw); walk.Next(); {
		entry := strictjson.Text(walk.Value)
		switch {
		case entry == "":
			return nil, protocol.BadParams("params.notifications.%s must be an array of %s", member, what)
		case len(list) == MaxWatched:
			return nil, protocol.BadParams("params.notifications.%s can have at most %d %s", member, MaxWatched, what)
		}
		list = append(list, entry)
	}
	return list, nil
}

// AppendTo appends the accepted filter as JSON.
func (f *filter) AppendTo(dst []byte) []byte {
	var accepted strictjson.ObjectBuilder
	for _, n := range filterMembers {
		if f.Changes&n.list != 0 {
			accepted.Add(n.name, strictjson.Boolean(true))
		}
	}
	if len(f.Resources) > 0 {
		accepted.Add("resourceSubscriptions", strictjson.AppendStrings(nil, f.Resources))
	}
	if len(f.Tasks) > 0 {
		accepted.Add("taskIds", strictjson.AppendStrings(nil, f.Tasks))
	}
	return append(dst, accepted.Close()...)
}
