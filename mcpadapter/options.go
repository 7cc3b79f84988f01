package mcpadapter

import (
	"time"

	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/outputschema"
	"github.com/fairwayhq/fairway/mcpadapter/library"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// Default values of Options.
const (
	DefaultMaxBody = 4 << 20         // bytes of a request body
	DefaultListTTL = 1 * time.Minute // how long a client may cache a list
)

// Options configure a Server. The zero value is valid.
type Options struct {
	// Name, Title and Version identify the server in serverInfo. Defaults:
	//
	//   - Name: the toolset's Title in lower case with hyphens, else its Name, else "fairway"
	//   - Title: the toolset's Title; omitted if it has none
	//   - Version: the toolset's Version, else "0"
	Name, Title, Version string

	// Instructions tell models how to use the server. Default: the toolset's Description, cut at
	// 2,048 bytes.
	Instructions string

	// MaxBody is the maximum size of a request body, in bytes. Default: DefaultMaxBody.
	MaxBody int64

	// AllowedOrigins are web origins such as "https://app.example.com" whose pages may call the
	// server and read the responses (CORS), in addition to pages of the server's own host. "*"
	// allows all. Requests without an Origin header do not come from a page and are always accepted.
	AllowedOrigins []string

	// AllowedHosts are additional Host names, without port, whose pages may call the server over a
	// loopback connection. Localhost and loopback addresses are always allowed; "*" allows all. List
	// the public host here if a proxy on the same machine forwards requests of pages: otherwise an
	// unknown name on a loopback address is rejected as DNS rebinding. Requests without an Origin
	// header are not checked.
	AllowedHosts []string

	// PageSize is the maximum number of tools on a page of tools/list. Default: 0, which means as
	// many as fit into 4 MiB, because many clients never request a second page. A page never exceeds
	// 4 MiB, unless a single tool does.
	PageSize int

	// ListTTL is how long a client may cache a list after receiving it (ttlMs, 2026-07-28). A
	// negative value disables caching. Default: DefaultListTTL.
	ListTTL time.Duration

	// Versions are the enabled revisions, such as "2025-11-25". Default: all.
	Versions []string

	// Secret signs session ids and encrypts state that clients store for the server. Servers behind
	// the same load balancer need the same Secret. Default: a random secret, so that sessions end
	// with the Server.
	Secret []byte

	// LoadSecret returns the secret if Secret is empty. It is called once, when the secret is first
	// needed.
	LoadSecret func() []byte

	// Memory is the state that the Server shares with its predecessor. Default: a new Memory.
	Memory *Memory

	// Instance distinguishes Servers that share a Memory and are in use at the same time. A Server
	// replaces the previous one with the same Instance.
	Instance int

	// Current returns the current tools, or nil if they are not loaded yet. When this Server
	// replaces another, clients of the other one are notified about the lists that differ. If
	// Current is nil, they are not notified.
	Current func() *tool.Toolset

	// SessionTTL is the lifetime of a session. Default: DefaultSessionTTL.
	SessionTTL time.Duration

	// MaxStreams is the maximum number of open streams, and MaxClientStreams the maximum per user
	// or, without users, per address. Defaults: DefaultMaxStreams, DefaultMaxClientStreams.
	MaxStreams, MaxClientStreams int

	// KeepAlive is the interval between comments on an idle stream. Default: DefaultKeepAlive.
	KeepAlive time.Duration

	// WatchInterval is how often a watched resource is polled. Default: DefaultWatchInterval.
	WatchInterval time.Duration

	// WatchRate is the maximum number of polling requests to the API per second, for all clients
	// together. At the limit, each resource is polled less often. Default: DefaultWatchRate.
	WatchRate int

	// AskTimeout is how long the server waits for a client's response to a request of the server.
	// Default: DefaultAskTimeout.
	AskTimeout time.Duration

	// PublicLists lets caches share lists between users (cacheScope "public", 2026-07-28). Set it
	// only if everyone who can reach the server may see all of its tools. Default: false (cacheScope
	// "private").
	PublicLists bool

	// OutputSchema says whether tools/list declares outputSchema. OutputLoose and OutputStrict
	// require toolsets that were built with tool.BuildOptions.ResponseSchemas. Default: OutputOff.
	OutputSchema OutputSchema

	// Tasks enables MCP Tasks for long-running calls. Default: nil, which means no tasks.
	Tasks *TaskOptions

	// Observe is called for each request that was served. It must return quickly. Default: nil, which
	// means no calls.
	Observe func(Operation)

	// OnLargeStructure is called once for each tool whose structuredContent is larger than hosts of
	// MCP Apps recommend (10 KiB). size is in bytes. The call happens while the response is written.
	// Default: nil, which means no calls.
	OnLargeStructure func(tool *tool.Tool, size int)
}

// OutputSchema says whether and how tools/list declares outputSchema.
type OutputSchema = outputschema.Mode

// The values of OutputSchema. Clients validate structuredContent against the outputSchema and fail
// the call if it is missing or invalid (MCP 2025-06-18, Tools, Output Schema). An API that deviates
// from its document would then lose its responses, so the default is OutputOff.
const (
	// OutputOff declares no outputSchema.
	OutputOff = outputschema.Off

	// OutputLoose declares the document's schema without constraints: it describes the output and
	// rejects nothing. All responses are passed on.
	OutputLoose = outputschema.Loose

	// OutputStrict declares the document's schema for tools that return only JSON, and validates
	// responses against it. An invalid response becomes a tool error that says where it deviates and
	// includes the response as text.
	OutputStrict = outputschema.Strict
)

// setDefaults sets the defaults of unset options.
func (o *Options) setDefaults() {
	orDefault(&o.MaxBody, DefaultMaxBody)
	orDefault(&o.SessionTTL, DefaultSessionTTL)
	orDefault(&o.MaxStreams, DefaultMaxStreams)
	orDefault(&o.MaxClientStreams, DefaultMaxClientStreams)
	orDefault(&o.KeepAlive, DefaultKeepAlive)
	orDefault(&o.WatchInterval, DefaultWatchInterval)
	orDefault(&o.WatchRate, library.DefaultWatchRate)
	orDefault(&o.AskTimeout, DefaultAskTimeout)
	if o.ListTTL == 0 {
		o.ListTTL = DefaultListTTL
	}
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
		PageSize: o.PageSize, ListTTL: o.ListTTL, PublicLists: o.PublicLists, OutputSchema: o.OutputSchema, Tasks: o.Tasks != nil,
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
