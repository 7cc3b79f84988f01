package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents/credential"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/ocp/loader"
	"github.com/fairwayhq/fairway/ocp/selector"
	"github.com/fairwayhq/fairway/ocp/shape"
	"github.com/fairwayhq/fairway/ocp/source"
	"github.com/fairwayhq/fairway/ocp/tool"
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

	// Files with OpenAPI Overlays (1.0 or 1.1, JSON or YAML). They are applied to the document
	// in this order, before anything else. Fairway watches them for changes. Placeholders are
	// replaced. Default: none.
	Overlays []string `json:"overlays,omitempty"`

	// A lock file with the tools that were approved, as `caddy tools lock` writes it. Tools that
	// differ from it, and tools that it does not have, are withheld: they are neither listed nor
	// can they be called. Fairway watches the file for changes. Default: none; every change of the
	// document takes effect.
	Lock string `json:"lock,omitempty"`

	// How often to re-fetch a document that is not a file. A negative value ("off" in the
	// Caddyfile) means never after the first success. Default: 5m.
	Refresh caddy.Duration `json:"refresh,omitempty"`

	// The directory that relative $refs of a file may refer into. Other $refs to files are
	// reported as warnings. $refs over the network are never followed. Default: none.
	Refs string `json:"refs,omitempty"`

	// Selectors of the operations that become tools. An operation must match at least one. A
	// selector that matches no operation is a configuration error. Default: all operations.
	Include []selector.Selector `json:"include,omitempty"`

	// Selectors of the operations that do not become tools, even if they are included. A
	// selector that matches no operation is a configuration error. If the document is loaded
	// after start, such a selector makes its tools unavailable (503), and a changed document is
	// not used. Default: none.
	Exclude []selector.Selector `json:"exclude,omitempty"`

	// Whether only operations with a safe method (GET, HEAD, OPTIONS) become tools. Default: false.
	ReadOnly bool `json:"readonly,omitempty"`

	// Changes of tools: names, texts, arguments, and what a model gets of responses. A document
	// can contain the same as x-fairway, and this list takes precedence. One that selects no
	// operation is a configuration error. Default: none.
	Tools []shape.Shape `json:"tools,omitempty"`

	// The longest description of a tool, in tokens of about 4 bytes. A longer one is cut at a
	// sentence. A negative value ("off" in the Caddyfile) lists descriptions in full, with their
	// markup. Default: 400.
	DescriptionTokens int `json:"description_tokens,omitempty"`

	// How shared schemas are listed. "inline" copies them to where they are used, within a
	// budget; "defs" keeps them in $defs; "auto" decides by size. Default: auto.
	Schemas string `json:"schemas,omitempty"`

	// The largest listed schema of one tool's arguments, and of its response, in bytes. A
	// larger schema is simplified: descriptions inside the schema are removed first, then its
	// deepest levels. A simplified schema accepts everything that the full one accepts, and
	// arguments are validated against the full schema. If the tools of a document would take
	// more than 9 MiB together, all of them get a lower limit. A negative value ("off" in the
	// Caddyfile) lists all schemas in full. Default: 64 KiB.
	MaxSchema int64 `json:"max_schema,omitempty"`

	// The path prefix of the API on this site. The document's paths are appended to it.
	// Default: the path of the document's first server.
	BasePath string `json:"base_path,omitempty"`

	// The largest document, in bytes. Default: 64 MiB.
	MaxDocument int64 `json:"max_document,omitempty"`

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

	// A server that improves the search for tools. Default: none; tools are found by their words.
	Embeddings *Embeddings `json:"embeddings,omitempty"`

	// Credentials that the gateway adds to each tool call. Default: none; the API receives what
	// the caller's own request carries.
	Credentials []json.RawMessage `json:"credentials,omitempty" caddy:"namespace=agents.credentials inline_key=in"`

	// Arguments that a model must not make up: an argument's name, or a tool's name, a dot and
	// an argument's name. If a call needs one, the user is asked through a client that
	// supports this. With other clients a call that needs one fails. Default: the arguments
	// that the document marks with x-otc-non-inferrable.
	NonInferrable []string `json:"non_inferrable,omitempty"`

	ResponseSchemas bool `json:"-"` // the handler needs response schemas, which take memory
}

// Empty reports whether no option is set.
func (c *ToolsetConfig) Empty() bool {
	return c.OpenAPI == "" && !c.optionsSet()
}

// optionsSet reports whether any option except the document is set.
func (c *ToolsetConfig) optionsSet() bool {
	return len(c.Overlays) > 0 || c.Lock != "" || c.Refresh != 0 || c.Refs != "" || len(c.Include) > 0 || len(c.Exclude) > 0 || c.Schemas != "" ||
		c.BasePath != "" || c.MaxDocument != 0 || c.MaxSchema != 0 || c.Timeout != 0 || c.MaxResponse != 0 || c.TokenBudget != nil || c.MaxTokens != 0 || c.Fields || c.Search != "" || len(c.Pins) > 0 || c.Embeddings != nil ||
		c.ReadOnly || len(c.Tools) > 0 || c.DescriptionTokens != 0 || len(c.Credentials) > 0 || len(c.NonInferrable) > 0
}

// Limits bound the calls of a toolset.
type Limits struct {
	Timeout     time.Duration // 0 or less: no limit
	MaxResponse int64         // bytes
}

// Limits returns the limits with defaults for options that are not set.
func (c *ToolsetConfig) Limits() Limits {
	l := Limits{Timeout: time.Duration(c.Timeout), MaxResponse: c.MaxResponse}
	if l.Timeout == 0 {
		l.Timeout = DefaultTimeout
	}
	if l.MaxResponse == 0 {
		l.MaxResponse = DefaultMaxResponse
	}
	return l
}

// sourceKind is the kind of source that a document is read from.
type sourceKind string

const (
	SourceFile sourceKind = "file"
	sourceURL  sourceKind = "url"
	SourceSite sourceKind = "site"
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
		return "", "", fmt.Errorf("documents cannot be read over %q; use a file, http or https (%s)", scheme, openapiHint(rest))
	case strings.HasPrefix(address, "/"):
		if file, err := os.Stat(address); err == nil && !file.IsDir() {
			return SourceFile, filepath.Clean(address), nil
		}
		return SourceSite, address, nil
	}
	where, err = filepath.Abs(address)
	return SourceFile, where, err
}

// openapiHint suggests a URL for an address that has an unknown scheme.
func openapiHint(rest string) string {
	return "did you mean https://" + strings.SplitN(rest, "?", 2)[0] + "?"
}

// Key normalizes the configuration. Name is the toolset's name; if it is "", the document's
// address without secrets is used.
func (c *ToolsetConfig) Key(name string) (DocumentKey, error) {
	repl := caddy.NewReplacer()
	kind, address, err := resolveAddress(repl.ReplaceAll(c.OpenAPI, ""))
	if err != nil {
		return DocumentKey{}, err
	}
	k := DocumentKey{
		Name:        name,
		Kind:        kind,
		Address:     address,
		Refresh:     time.Duration(c.Refresh),
		Include:     c.Include,
		Exclude:     c.Exclude,
		ReadOnly:    c.ReadOnly,
		Tools:       c.shapes(),
		BasePath:    repl.ReplaceAll(c.BasePath, ""),
		MaxDocument: c.MaxDocument,
		MaxSchema:   c.MaxSchema,

		DescriptionTokens: c.DescriptionTokens,

		NonInferrable:   c.NonInferrable,
		ResponseSchemas: c.ResponseSchemas,
		Embeddings:      c.Embeddings,
	}
	if k.Name == "" {
		k.Name = RedactURL(c.OpenAPI)
	}
	if c.TokenBudget != nil {
		k.TokenBudget = *c.TokenBudget
	}
	if k.Refresh == 0 || kind == SourceFile {
		k.Refresh = loader.DefaultRefresh
	}
	if k.MaxDocument == 0 {
		k.MaxDocument = source.DefaultMaxDocument
	}
	if k.MaxSchema == 0 {
		k.MaxSchema = tool.DefaultMaxSchema
	}
	if k.Schemas, err = tool.ParseSchemaMode(c.Schemas); err != nil {
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

// shapes returns the shapes of the tools. That of the option fields comes first, so that a tool can undo it.
func (c *ToolsetConfig) shapes() []shape.Shape {
	if !c.Fields {
		return c.Tools
	}
	return append([]shape.Shape{{Tool: shape.All, Fields: &c.Fields}}, c.Tools...)
}

// check returns an error for option values that can never work.
func (k *DocumentKey) check() error {
	if err := k.Embeddings.check(); err != nil {
		return err
	}
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
		return fmt.Errorf("refs requires a document that is a file: $refs of %s cannot refer to files", RedactURL(k.Address))
	}
	for _, s := range append(append([]selector.Selector(nil), k.Include...), k.Exclude...) {
		if err := s.Check(); err != nil {
			return err
		}
	}
	return checkShapes(k.Tools)
}

// RedactURL returns an address without user, password, query and fragment.
func RedactURL(address string) string {
	if !strings.Contains(address, "://") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "(a URL that cannot be parsed)"
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment = nil, "", "", ""
	return u.String()
}

// Toolset is a document with the limits and credentials of one configuration.
type Toolset struct {
	Name string
	*Document
	Limits         Limits
	Search         SearchMode      // "" if not configured
	Pins           []string        // names of tools that are listed even if endpoints search
	Credentials    credential.Set  // added by the gateway; none if callers authenticate themselves
	filledToolsets *filledToolsets // nil without credentials
	MaxTokens      int             // less than 0: no limit
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
	checked, err := credential.Load(ctx, c.Credentials, logger.With(zap.String("toolset", name)))
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
	d, err := openDocument(ctx, key, logger)
	if err != nil {
		return nil, err
	}
	if tools := d.Loader.Toolset(); tools != nil {
		if err := CheckPins(c.Pins, tools); err != nil {
			closeDocument(key)
			return nil, err
		}
	}
	t := &Toolset{Name: key.Name, Document: d, Limits: c.Limits(), Search: c.Search, Pins: c.Pins, Credentials: checked}
	if t.MaxTokens = c.MaxTokens; t.MaxTokens == 0 {
		t.MaxTokens = DefaultMaxTokens
	}
	if len(checked) > 0 {
		t.filledToolsets = new(filledToolsets)
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

// Qualifier returns the toolset's name in the form in which it precedes the names of its tools.
func (t *Toolset) Qualifier() string {
	name := t.Key.ShownName()
	return oagent.KebabName(strings.TrimSuffix(name, path.Ext(name)))
}
