package app

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	inspectors "github.com/fairwayhq/fairway/caddymodule/inspect"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
	"github.com/fairwayhq/fairway/tools/inspect"
	"github.com/fairwayhq/fairway/tools/loader"
	"github.com/fairwayhq/fairway/tools/rule"
	"github.com/fairwayhq/fairway/tools/schema"
	"github.com/fairwayhq/fairway/tools/source"
)

// Defaults of a toolset.
const (
	DefaultTimeout     = 30 * time.Second // for one tool call
	DefaultMaxResponse = 4 << 20          // bytes of one response
)

// Limits of max_schema, in bytes.
const (
	minMaxSchema = 1 << 10
	maxMaxSchema = 4 << 20
)

// IsAddress reports whether a name of a toolset is instead the address of a document: it has a character that
// names do not have.
func IsAddress(name string) bool { return strings.ContainsAny(name, `./\:{`) }

// ToolsetConfig configures which operations of an OpenAPI document become tools, and the limits
// of their calls.
type ToolsetConfig struct {
	// The OpenAPI document (3.0, 3.1 or Swagger 2.0; JSON or YAML). It is one of:
	//
	//   - the path or file:// URL of a file. The file is read when the configuration is loaded
	//     and must be valid then. Fairway watches it for changes.
	//   - an http:// or https:// URL. It is fetched after start. Until the first fetch
	//     succeeds, the tools are unavailable (503 with Retry-After).
	//   - a path on the site, such as /openapi.json. An absolute path is a path on the site
	//     unless a file with that name exists. The document is fetched through the handlers
	//     after this one, without the caller's credentials, when the first request needs tools.
	//
	// Placeholders such as {env.SPEC} are replaced. Required.
	OpenAPI string `json:"openapi,omitempty"`

	// The MCP server whose tools the toolset has, instead of an OpenAPI document. The handler mcp_servers of the
	// site answers the calls. Default: none.
	MCPServer json.RawMessage `json:"mcp_server,omitempty" caddy:"module=agents.mcp_server"`

	// Files with OpenAPI Overlays (1.0 or 1.1, JSON or YAML). They are applied to the document
	// in this order, before anything else. Fairway watches them for changes. Placeholders are
	// replaced. Default: none.
	Overlays []string `json:"overlays,omitempty"`

	// A lock file with the tools that were approved, as `caddy tools lock` writes it. Tools that
	// differ from it, and tools that it does not have, are withheld: they are neither listed nor
	// can they be called. Fairway watches the file for changes. Default: none; every change of the
	// document takes effect.
	Lock string `json:"lock,omitempty"`

	// Which operations become tools, and how.
	tools.BuildOptions

	// How often to re-fetch a document that is not a file. A negative value ("off" in the
	// Caddyfile) means never after the first success. Default: 5m.
	Refresh caddy.Duration `json:"refresh,omitempty"`

	// The maximum duration of one tool call. For a streamed response it is the longest pause
	// between two events, and the whole stream may take ten times as long. A negative value
	// means no limit. Default: 30s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// The largest response to one tool call, in bytes, compressed or not. Default: 4 MiB.
	MaxResponse int64 `json:"max_response,omitempty"`

	// The estimated size of the list of tools, in tokens (bytes of JSON divided by four), above
	// which a warning is logged. 0 means never. Default: 0.
	TokenBudget *int `json:"token_budget,omitempty"`

	// Whether MCP endpoints list tools that search for tools, instead of all tools. "on": always.
	// "off": never. "auto": if the list of all tools has more than an estimated 25,000 tokens
	// (bytes of JSON divided by four). An endpoint may set its own value, and a client may choose
	// with ?tools=all or ?tools=search in the endpoint's URL. Default: auto.
	Search SearchMode `json:"search,omitempty"`

	// The names of tools that endpoints list in addition to the tools that search. An endpoint
	// may set its own. A name without a tool is a configuration error; if the document is loaded
	// later, it is a warning. Default: none.
	Pins []string `json:"pins,omitempty"`

	// The largest response that a model gets at once, in tokens of about 4 bytes. A larger response
	// is cut at whole items of its largest array, or at lines, and the tool next_page returns the
	// rest. Binary responses are not cut. A negative value ("off" in the Caddyfile) means no limit.
	// Default: 20000.
	MaxTokens int `json:"max_tokens,omitempty"`

	// Whether each tool takes an optional argument "fields", with which a model asks for some
	// members of a JSON response only, as in "items.title,total". Tools that have an argument of
	// this name keep their own. Default: false.
	Fields bool `json:"fields,omitempty"`

	// Whether arguments are sent even if they do not fit the schema of their tool. The model gets what
	// does not fit, with the result or with the error of the API. Names of arguments, fixed values, and
	// the rules for paths and headers are checked all the same. Default: false.
	SendMismatches bool `json:"send_mismatches,omitempty"`

	// A server that improves the search for tools. Default: none; tools are found by their words.
	Embeddings json.RawMessage `json:"embeddings,omitempty" caddy:"module=agents.embeddings.openai"`

	// Credentials that the gateway adds to each tool call. Default: none; the API receives what
	// the caller's own request carries.
	Credentials []json.RawMessage `json:"credentials,omitempty" caddy:"namespace=agents.credentials inline_key=in"`

	// Which tools a user may call, with which arguments: a CEL expression over user (id, groups, claims), tool
	// (name, toolset, operationId, method, path, tags, readOnly, destructive, idempotent, deprecated) and arguments.
	// Tools for which it is false whatever the arguments are do not exist for the user. An expression that fails
	// allows nothing. It applies to tool calls, not to plain requests to the API. Default: every user may call
	// all tools.
	Allow string `json:"allow,omitempty"`

	// A rule like allow that is not enforced: calls that it does not allow go on, and are reported. It does not change
	// the list of tools. Default: none.
	AllowLogOnly string `json:"allow_log_only,omitempty"`

	// Headers of the caller that tool calls carry beside the toolset's credentials, and those that handlers
	// before the endpoint set. Only headers that describe the message pass without being listed here (Accept,
	// Content-Type, Traceparent, User-Agent, ...). Without credentials, all headers pass. Default: none.
	ForwardHeaders []string `json:"forward_headers,omitempty"`

	// Inspectors of the arguments and responses of tool calls, and of the texts of tools. They are applied in this
	// order. Responses to plain requests are inspected too if an oagent handler guards them. Default: none.
	Inspectors []json.RawMessage `json:"inspectors,omitempty" caddy:"namespace=agents.inspectors inline_key=inspector"`
}

// Empty reports whether no option is set.
func (c *ToolsetConfig) Empty() bool {
	return c.OpenAPI == "" && !c.optionsSet()
}

// optionsSet reports whether any option except the document is set.
func (c *ToolsetConfig) optionsSet() bool {
	options := *c
	options.OpenAPI, options.ResponseSchemas = "", false
	return !reflect.ValueOf(options).IsZero()
}

// Limits bound the calls of a toolset.
type Limits struct {
	Timeout     time.Duration // 0 or less: no limit
	MaxResponse int64         // bytes
}

// Limits returns the limits with defaults for options that are not set.
func (c *ToolsetConfig) Limits() Limits {
	l := Limits{Timeout: time.Duration(c.Timeout), MaxResponse: c.MaxResponse}
	l.Timeout = cmp.Or(l.Timeout, DefaultTimeout)
	l.MaxResponse = cmp.Or(l.MaxResponse, DefaultMaxResponse)
	return l
}

// sourceKind is the kind of source that a document is read from.
type sourceKind string

const (
	SourceFile sourceKind = "file"
	sourceURL  sourceKind = "url"
	SourceSite sourceKind = "site"
	sourceMCP  sourceKind = "mcp" // the tools of an MCP server
)

// resolveAddress returns the kind of a document's address and the address itself. The path of a file is
// made absolute.
func resolveAddress(address string) (kind sourceKind, where string, err error) {
	scheme, rest, isURL := strings.Cut(address, "://")
	switch {
	case address == "":
		return "", "", errors.New("no OpenAPI document: give a file, a URL or a path on the site")
	case isURL && strings.EqualFold(scheme, "file"):
		u, err := url.Parse(address)
		if err != nil || u.Host != "" && u.Host != "localhost" || u.Path == "" {
			return "", "", fmt.Errorf("%q is not the URL of a file: write it as file:///path/to/openapi.yaml", address)
		}
		return SourceFile, filepath.Clean(filepath.FromSlash(u.Path)), nil
	case isURL && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")):
		return sourceURL, address, nil
	case isURL:
		return "", "", fmt.Errorf("documents cannot be read over %q; use a file, http or https (did you mean https://%s?)", scheme, strings.SplitN(rest, "?", 2)[0])
	case strings.HasPrefix(address, "/"):
		if file, err := os.Stat(address); err == nil && !file.IsDir() {
			return SourceFile, filepath.Clean(address), nil
		}
		return SourceSite, address, nil
	}
	where, err = filepath.Abs(address)
	return SourceFile, where, err
}

// Key normalizes the configuration. Name is the toolset's name; if it is "", the document's
// address without secrets is used.
func (c *ToolsetConfig) Key(name string) (DocumentKey, error) {
	repl := caddy.NewReplacer()
	server, err := c.server()
	if err != nil {
		return DocumentKey{}, err
	}
	kind, address, err := c.origin(name, server, repl)
	if err != nil {
		return DocumentKey{}, err
	}
	k := DocumentKey{
		MCPServer: c.MCPServer, server: server,
		Name: name, Kind: kind, Address: address, Refresh: time.Duration(c.Refresh), BuildOptions: c.BuildOptions, Embeddings: c.Embeddings,
	}
	k.Shapes, k.BasePath, k.Refs = c.shapes(), repl.ReplaceAll(c.BasePath, ""), ""
	if k.Name == "" {
		k.Name = text.RedactURL(c.OpenAPI)
	}
	if c.TokenBudget != nil {
		k.TokenBudget = *c.TokenBudget
	}
	if k.Refresh == 0 || kind == SourceFile {
		k.Refresh = loader.DefaultRefresh
	}
	k.MaxDocument = cmp.Or(k.MaxDocument, source.DefaultMaxDocument)
	k.MaxSchema = cmp.Or(k.MaxSchema, tools.DefaultMaxSchema)
	if k.Foreign = kind == sourceMCP; k.Foreign {
		k.DescriptionTokens = cmp.Or(k.DescriptionTokens, -1) // the server has written the descriptions for models
	}
	if k.Schemas, err = schema.ParseMode(string(c.Schemas)); err != nil {
		return DocumentKey{}, fmt.Errorf("schemas: %w", err)
	}
	for _, file := range c.Overlays {
		if file = repl.ReplaceAll(file, ""); file == "" {
			return DocumentKey{}, errors.New("overlay: the path of a file is empty")
		}
		if file, err = filepath.Abs(file); err != nil {
			return DocumentKey{}, err
		}
		k.Overlays = append(k.Overlays, file)
	}
	if lock := repl.ReplaceAll(c.Lock, ""); lock != "" {
		if k.Lock, err = filepath.Abs(lock); err != nil {
			return DocumentKey{}, err
		}
	} else if c.Lock != "" {
		return DocumentKey{}, fmt.Errorf("lock: %s is empty: give the path of a lock file", c.Lock)
	}
	if refs := repl.ReplaceAll(c.Refs, ""); refs != "" {
		if k.Refs, err = filepath.Abs(refs); err != nil {
			return DocumentKey{}, err
		}
	}
	return k, k.check()
}

// origin returns what the tools are made of: the kind and the address of the document, or of the MCP server.
func (c *ToolsetConfig) origin(name string, server mcpServer, repl *caddy.Replacer) (kind sourceKind, address string, err error) {
	if server == nil {
		return resolveAddress(repl.ReplaceAll(c.OpenAPI, ""))
	}
	switch {
	case c.OpenAPI != "":
		return "", "", errors.New("a toolset has either an OpenAPI document or an mcp_server")
	case !isPathSegment.MatchString(name):
		return "", "", errors.New("a toolset with mcp_server needs a name of letters, digits, - and _, because the paths of its calls begin with it")
	case c.BasePath != "" || c.Refs != "":
		return "", "", errors.New("base_path and refs are for OpenAPI documents")
	}
	for _, header := range c.ForwardHeaders {
		if header = textproto.CanonicalMIMEHeaderKey(header); header == "Authorization" || header == "Cookie" || header == "Proxy-Authorization" {
			return "", "", fmt.Errorf("forward_headers %s: an MCP server must not get the credentials that callers have for this site: use credential", header)
		}
	}
	if address, err = server.Location(name); err != nil {
		return "", "", fmt.Errorf("mcp_server: %w", err)
	}
	return sourceMCP, address, nil
}

var isPathSegment = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// shapes returns the shapes of the tools. That of the options for all tools comes first, so that a tool can undo it.
func (c *ToolsetConfig) shapes() []build.Shape {
	all := build.Shape{Tool: build.AllTools}
	if c.Fields {
		all.Fields = &c.Fields
	}
	if c.SendMismatches {
		all.SendMismatches = &c.SendMismatches
	}
	if all.Fields == nil && all.SendMismatches == nil {
		return c.Shapes
	}
	return append([]build.Shape{all}, c.Shapes...)
}

// check returns an error for option values that can never work.
func (k *DocumentKey) check() error {
	switch {
	case k.MaxDocument < 0:
		return fmt.Errorf("max_document %d is negative: give a size, such as 64MiB", k.MaxDocument)
	case k.MaxSchema > 0 && k.MaxSchema < minMaxSchema:
		return fmt.Errorf("max_schema %d is too small: give %d bytes or more, such as 64KiB", k.MaxSchema, minMaxSchema)
	case k.MaxSchema > maxMaxSchema:
		return fmt.Errorf("max_schema %d is too large: give %d bytes at most, or off", k.MaxSchema, maxMaxSchema)
	case k.TokenBudget < 0:
		return fmt.Errorf("token_budget %d is negative; 0 disables the warning", k.TokenBudget)
	case k.BasePath != "" && !strings.HasPrefix(k.BasePath, "/"):
		return fmt.Errorf("base_path %q does not begin with a slash", k.BasePath)
	case k.Refs != "" && k.Kind != SourceFile:
		return fmt.Errorf("refs requires a document that is a file: $refs of %s cannot refer to files", text.RedactURL(k.Address))
	}
	for _, s := range append(append([]build.Selector(nil), k.Include...), k.Exclude...) {
		if err := s.Check(); err != nil {
			return err
		}
	}
	return checkShapes(k.Shapes)
}

// Toolset is a document with the limits and credentials of one configuration.
type Toolset struct {
	Name string
	*Document
	Limits         Limits
	Search         SearchMode      // "" if not configured
	Pins           []string        // names of tools that are listed even if endpoints search
	Credentials    credential.Set  // added by the gateway; none if callers authenticate themselves
	ForwardHeaders []string        // canonical names of the callers' headers that calls carry beside Credentials
	filledToolsets *filledToolsets // nil without credentials and inspectors of lists
	ChangesList    bool            // the tools that clients see may differ from those of the document; see Filled
	Inspect        inspect.Chain   // nil without inspectors
	MaxTokens      int             // less than 0: no limit
	Allow          *rule.Rule      // what users may call; nil for everything
	HasMCPServer   bool            // the tools are those of an MCP server
	LogOnly        LogOnly         // rules that are not enforced
}

// LogOnly are the rules of a toolset that are not enforced: what they would have done to a call is only reported.
type LogOnly struct {
	Allow   *rule.Rule // nil if there is none
	Inspect inspect.Chain
}

// ReportLogOnly logs that a rule is not enforced, and warns if its calls carry credentials of the gateway.
func ReportLogOnly(logger *zap.Logger, name string, withCredentials bool) {
	logger = logger.With(zap.String("rule", name))
	logger.Info("a rule is in log only: calls go on, and what it would have done is recorded")
	if withCredentials {
		logger.Warn("calls under a rule that is in log only carry credentials of the gateway: make sure that these callers may use them")
	}
}

// report logs the rules.
func (l *LogOnly) report(logger *zap.Logger, withCredentials bool) {
	if l.Allow != nil {
		ReportLogOnly(logger, "allow_log_only", withCredentials)
	}
	for _, step := range l.Inspect {
		ReportLogOnly(logger, "inspect."+step.Name, withCredentials)
	}
}

// compileRule compiles the rule of an option; nil if there is none.
func compileRule(option, expression string) (*rule.Rule, error) {
	if expression == "" {
		return nil, nil
	}
	compiled, err := rule.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	return compiled, nil
}

// WithholdsShadowing reports whether tools with the names of tools of other toolsets are withheld: the tools are those of
// an MCP server, suspicious ones are withheld, and there is no lock that could approve them.
func (t *Toolset) WithholdsShadowing() bool {
	return t.Key.server != nil && t.Key.server.Withholds() && t.Key.Lock == ""
}

// open opens the document (see openDocument) and validates the credentials. Site distinguishes
// documents with the same path on different sites.
func (c *ToolsetConfig) open(ctx caddy.Context, name, site string, logger *zap.Logger) (*Toolset, error) {
	if c.MaxResponse < 0 {
		return nil, fmt.Errorf("max_response %d is negative: give a size, such as 1MiB", c.MaxResponse)
	}
	if err := c.Search.Check(); err != nil {
		return nil, err
	}
	key, err := c.Key(name)
	if err != nil {
		return nil, err
	}
	if err := CheckMaxTokens(c.MaxTokens); err != nil {
		return nil, err
	}
	checked, err := credential.LoadForToolset(ctx, c.Credentials, logger.With(zap.String("toolset", name)))
	if err != nil {
		return nil, err
	}
	forwarded, err := credential.Forwarded(c.ForwardHeaders)
	if err != nil {
		return nil, err
	}
	if key.Kind == SourceSite {
		key.Site = site
	}
	if strings.HasPrefix(c.OpenAPI, "/") {
		logger.Info("openapi is an absolute path; it is a path on the site unless a file with that name exists",
			zap.String("openapi", c.OpenAPI), zap.String("taken_for", string(key.Kind)))
	}
	allow, err := compileRule("allow", c.Allow)
	if err != nil {
		return nil, err
	}
	var logOnly LogOnly
	if logOnly.Allow, err = compileRule("allow_log_only", c.AllowLogOnly); err != nil {
		return nil, err
	}
	chain, err := inspectors.Load(ctx, inspectors.OfToolset, c.Inspectors)
	if err != nil {
		return nil, err
	}
	chain, logOnly.Inspect = chain.Split()
	semantic, err := c.semanticSearch(ctx)
	if err != nil {
		return nil, err
	}
	d, err := openDocument(ctx, key, semantic, logger)
	if err != nil {
		return nil, err
	}
	if d.MCPServer != nil {
		if err := d.MCPServer.Use(ctx, checked, logger); err != nil {
			closeDocument(key)
			return nil, err
		}
	}
	if toolset := d.Loader.Toolset(); toolset != nil {
		if err := CheckPins(c.Pins, toolset); err != nil {
			closeDocument(key)
			return nil, err
		}
	}
	t := &Toolset{Name: key.Name, Document: d, Limits: c.Limits(), Search: c.Search, Pins: c.Pins, Credentials: checked, ForwardHeaders: forwarded, Allow: allow, Inspect: chain, HasMCPServer: d.MCPServer != nil, LogOnly: logOnly}
	t.LogOnly.report(logger.With(zap.String("toolset", t.Name)), len(checked) > 0)
	if t.MaxTokens = c.MaxTokens; t.MaxTokens == 0 {
		t.MaxTokens = defaultMaxTokens
	}
	if len(checked) > 0 || chain.Has(inspect.List) {
		t.ChangesList = true
		t.filledToolsets = &filledToolsets{logger: logger}
		t.Filled(d.Loader.Toolset())
	}
	return t, nil
}

// WithResponseSchemas returns a copy of the options that requests response schemas. OTC lists them for
// every tool.
func WithResponseSchemas(config *ToolsetConfig) *ToolsetConfig {
	result := new(ToolsetConfig)
	if config != nil {
		*result = *config
	}
	result.ResponseSchemas = true
	return result
}
