package mcpadapter

import (
	"cmp"
	"context"
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/content"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/once"
)

// Default values of Options.
const (
	defaultMaxBody = 4 << 20         // bytes of a request body
	defaultListTTL = 1 * time.Minute // how long a client may cache a list
)

// Options configure a Server. The zero value is valid. A configuration file can have those with a name in JSON.
type Options struct {
	// The name of the server in serverInfo. Default: the name of the toolset of the agents app.
	// For other toolsets, the document's title in lower case with dashes, such as
	// github-rest-api.
	Name string `json:"name,omitempty"`

	// The display title of the server. Default: the document's title.
	Title string `json:"title,omitempty"`

	// The version of the server in serverInfo. Default: the document's version.
	Version string `json:"version,omitempty"`

	// Instructions that tell models how to use the server. Default: the document's description.
	Instructions string `json:"instructions,omitempty"`

	// Origins of web pages that may call the endpoint and read its responses (CORS), such as
	// https://app.example.com. Pages of the site's own host are always allowed. "*" allows all
	// origins. Default: none, and no CORS headers.
	AllowedOrigins []string `json:"origins,omitempty"`

	// Host names whose pages may call the endpoint over a loopback address. As a protection
	// against DNS rebinding, other names than those of this machine are rejected there. Set the
	// public host if a proxy on this machine forwards requests of its pages. "*" allows all
	// hosts. Requests that do not come from a page are not checked. Default: none.
	AllowedHosts []string `json:"hosts,omitempty"`

	// The maximum number of tools on a page of tools/list. A page has at most 4 MiB, unless a
	// single tool is larger. 0 means as many as fit, because many clients do not request a
	// second page. Default: 0.
	PageSize int `json:"page_size,omitempty"`

	// The largest request body, in bytes. Default: 4 MiB.
	MaxBody int64 `json:"max_body,omitempty"`

	// The protocol revisions that the server supports, such as 2025-11-25. Default: all.
	Versions []string `json:"versions,omitempty"`

	// The maximum number of open streams. If more than three quarters are open, users and the
	// networks of unauthenticated callers have shares of the rest. Default: 10000.
	MaxStreams int `json:"max_streams,omitempty"`

	// The maximum number of polling requests to the API per second, for all clients together.
	// Clients of the same user share a request. If the limit is reached, each resource is
	// polled less often. Default: 20.
	WatchRate int `json:"watch_rate,omitempty"`

	// Whether caches may share lists between users. Set it only if everyone who can reach the
	// server may see all of its tools. Default: false.
	PublicLists bool `json:"public_lists,omitempty"`

	// What tools/list contains about responses. "off": nothing. "loose": the document's schemas
	// in a form that describes responses and requires nothing. "strict": the document's
	// schemas; a response that does not match its schema becomes an error that names the
	// mismatch. Clients reject responses that do not match the listed schema. Default: off.
	OutputSchema OutputSchema `json:"output_schema,omitempty"`

	// ListTTL is how long a client may cache a list after receiving it (ttlMs, 2026-07-28). A
	// negative value disables caching. Default: 1 minute.
	ListTTL time.Duration `json:"-"`

	// Secrets returns the secrets that sign session ids, and seal the state that clients and the store
	// keep for the server. Servers behind the same load balancer need the same Secrets. It is called for
	// each request that needs them, so it must be fast. The result is the same pointer as long as the
	// secrets are the same. Default: random secrets, so that sessions end with the Server.
	Secrets func(context.Context) (*Secrets, error) `json:"-"`

	// Memory is the state that the Server shares with its predecessor. Default: a new Memory.
	Memory *Memory `json:"-"`

	// Elicited is called when a client has got a URL elicitation in an error (2025-11-25): the user has to connect an account
	// (tools.Connection). When the user has done so, Memory.Connected notifies the client. May be nil.
	Elicited func(user, account string) `json:"-"`

	// Instance distinguishes Servers that share a Memory and are in use at the same time. A Server
	// replaces the previous one with the same Instance.
	Instance int `json:"-"`

	// Current returns the current tools, or nil if they are not loaded yet. When this Server
	// replaces another, clients of the other one are notified about the lists that differ. If
	// Current is nil, they are not notified.
	Current func() *tools.Toolset `json:"-"`

	// SessionTTL is the lifetime of a session. Default: 24 hours.
	SessionTTL time.Duration `json:"-"`

	// Warn is called when the use of a limit with shares rises above 80 %. It must not block. May be nil.
	Warn func(Usage) `json:"-"`

	// KeepAlive is the interval between comments on an idle stream, and while a call takes longer. A negative value turns
	// them off. Default: 25 seconds.
	KeepAlive time.Duration `json:"-"`

	// WatchInterval is how often a watched resource is polled. Default: 10 seconds.
	WatchInterval time.Duration `json:"-"`

	// AskTimeout is how long the server waits for a client's response to a request of the server.
	// Default: DefaultAskTimeout.
	AskTimeout time.Duration `json:"-"`

	// Tasks enables MCP Tasks for long-running calls. Default: nil, which means no tasks.
	Tasks *TaskOptions `json:"-"`

	// Extensions are further parts of the server. Default: none.
	Extensions []Extension `json:"-"`

	// Once records calls with an idempotency key, so that each runs once. Default: nil, which means that keys are ignored.
	Once *once.Records `json:"-"`

	// ToolMeta returns a further member of a tool's _meta, with its value; nil for none. Default: none.
	ToolMeta func(*tools.Tool) (name string, value []byte) `json:"-"`

	// Observe is called for each request that was served. It must return quickly. Default: nil, which
	// means no calls.
	Observe func(Operation) `json:"-"`

	// OnLargeStructure is called once for each tool whose structuredContent is larger than hosts of
	// MCP Apps recommend (10 KiB). size is in bytes. The call happens while the response is written.
	// Default: nil, which means no calls.
	OnLargeStructure func(tool *tools.Tool, size int) `json:"-"`
}

// OutputSchema says whether and how tools/list declares outputSchema.
type OutputSchema = content.OutputMode

// The values of OutputSchema. Clients validate structuredContent against the outputSchema and fail
// the call if it is missing or invalid (MCP 2025-06-18, Tools, Output Schema). An API that deviates
// from its document would then lose its responses, so the default is OutputOff.
const (
	// OutputOff declares no outputSchema.
	OutputOff = content.OutputOff

	// OutputLoose declares the document's schema without constraints: it describes the output and
	// rejects nothing. All responses are passed on.
	OutputLoose = content.Loose

	// OutputStrict declares the document's schema for tools that return only JSON, and validates
	// responses against it. An invalid response becomes a tool error that says where it deviates and
	// includes the response as text.
	OutputStrict = content.Strict
)

// setDefaults sets the defaults of unset options.
func (o *Options) setDefaults() {
	if o.Secrets == nil {
		o.Secrets = randomSecrets()
	}
	orDefault(&o.MaxBody, defaultMaxBody)
	orDefault(&o.SessionTTL, defaultSessionTTL)
	orDefault(&o.MaxStreams, defaultMaxStreams)
	if o.KeepAlive < 0 {
		o.KeepAlive = noKeepAlive
	}
	orDefault(&o.KeepAlive, defaultKeepAlive)
	orDefault(&o.WatchInterval, defaultWatchInterval)
	orDefault(&o.WatchRate, library.DefaultWatchRate)
	orDefault(&o.AskTimeout, DefaultAskTimeout)
	o.ListTTL = cmp.Or(o.ListTTL, defaultListTTL)
	o.ListTTL = max(o.ListTTL, 0)
}

func orDefault[T int | int64 | time.Duration](option *T, value T) {
	if *option <= 0 {
		*option = value
	}
}

// catalogOptions returns the options of lists.
func (o *Options) catalogOptions() catalog.Options {
	return catalog.Options{
		Name: o.Name, Title: o.Title, Version: o.Version, Instructions: o.Instructions,
		PageSize: o.PageSize, ListTTL: o.ListTTL, PublicLists: o.PublicLists, OutputSchema: o.OutputSchema, Tasks: o.Tasks != nil, ToolMeta: o.ToolMeta,
	}
}

// An Operation describes a request of a client that was served, for metrics. None of its values is
// chosen by the client.
type Operation struct {
	Method   string // of the request, one that the server knows
	Tool     string // that the request called; "" for none, or if it does not exist
	Error    string // outcome of the tool call, or else the code of the JSON-RPC error; "" for a success
	Revision string // of MCP
	Duration time.Duration
}
