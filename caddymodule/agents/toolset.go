package agents

import (
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

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/ocp"
	"github.com/fairwayhq/fairway/ocp/openapi"
	"github.com/fairwayhq/fairway/ocp/schema"
)

// Defaults of a toolset.
const (
	DefaultTimeout     = 30 * time.Second // of one tool call
	DefaultMaxResponse = 1 << 20          // bytes of one answer
	DefaultTokenBudget = 25_000           // estimated tokens of the list of tools
)

// Limits of max_schema, in bytes.
const (
	minMaxSchema = 1 << 10
	maxMaxSchema = 4 << 20
)

// ToolsetConfig says which tools are made of an OpenAPI document, and what bounds
// their calls.
type ToolsetConfig struct {
	// The OpenAPI document (3.0, 3.1 or Swagger 2.0; JSON or YAML): the path or
	// file:// URL of a file, an http:// or https:// URL, or a path on the site
	// itself such as /openapi.json. An absolute path is the site's unless a
	// file of that name exists. Required. Placeholders such as {env.SPEC} are
	// replaced.
	//
	// A file is read when the configuration is loaded, must be good then, and is
	// watched. A URL is read after start; until it answers, the tools are
	// unavailable (503 with Retry-After). A document of the site is read through
	// the handlers behind this one, without the caller's credentials, when the
	// first request asks for tools.
	OpenAPI string `json:"openapi,omitempty"`

	// How often a document that is not a file is asked for. Default: 5m.
	// Negative ("off" in the Caddyfile) means never again once it is loaded.
	Refresh caddy.Duration `json:"refresh,omitempty"`

	// The directory below which relative $refs of a file may name other files.
	// Default: none, such $refs are warnings. $refs over the network are never
	// followed.
	Refs string `json:"refs,omitempty"`

	// Which operations become tools: those that one of these selects. One that
	// selects nothing is a configuration error. Default: all of them.
	Include []ocp.Selector `json:"include,omitempty"`

	// Which operations do not become tools, even if they are included. One that
	// selects nothing is a configuration error; if the document is loaded after
	// start, its tools are unavailable (503), and a changed document is not used.
	// Default: none.
	Exclude []ocp.Selector `json:"exclude,omitempty"`

	// What happens to schemas that are shared: "inline" writes them out where
	// they are used within a budget, "defs" keeps them in $defs, "auto" does
	// either, by size. Default: auto.
	Schemas string `json:"schemas,omitempty"`

	// The largest schema of one tool's arguments, and of its answer, that is listed,
	// in bytes. Over it, descriptions inside the schema are left out first, then its
	// deepest levels; the simplified schema accepts all that the full one accepts,
	// and arguments are checked against the full one. If the tools of a document
	// would take more than 9 MiB together, all have a lower limit. Negative ("off"
	// in the Caddyfile) lists all schemas in full. Default: 64 KiB.
	MaxSchema int64 `json:"max_schema,omitempty"`

	// What stands before the document's paths on this site. Default: the path
	// of the document's first server.
	BasePath string `json:"base_path,omitempty"`

	// The largest document, in bytes. Default: 64 MiB.
	MaxDocument int64 `json:"max_document,omitempty"`

	// How long one tool call may take. Default: 30s. Negative means as long as
	// the handlers behind it allow. Of an answer that streams it is how long
	// nothing may come; the whole stream may take ten times as long.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// The largest answer of one tool call, in bytes, compressed or not. Default:
	// 1 MiB.
	MaxResponse int64 `json:"max_response,omitempty"`

	// The estimated number of tokens (bytes of JSON by four) from which on a
	// list of tools is warned about in the log. Default: 25000. 0 means never.
	TokenBudget *int `json:"token_budget,omitempty"`

	// What the gateway shows to the API with each tool call. Default: what the
	// caller's own request has is carried along, and nothing else.
	Credentials []Credential `json:"credentials,omitempty"`

	// Arguments that a model must not make up: a name, or a tool's name, a dot and
	// a name. Users are asked for those that a call needs, by clients that can; what
	// needs them cannot be called by others.
	// Default: those that the document marks by x-otc-non-inferrable.
	NonInferrable []string `json:"non_inferrable,omitempty"`

	Answers bool `json:"-"` // the handler wants the schemas of answers, which cost memory
}

// Empty reports whether nothing is configured.
func (c *ToolsetConfig) Empty() bool {
	return c.OpenAPI == "" && !c.optionsSet()
}

// optionsSet reports whether anything but the document is configured.
func (c *ToolsetConfig) optionsSet() bool {
	return c.Refresh != 0 || c.Refs != "" || len(c.Include) > 0 || len(c.Exclude) > 0 || c.Schemas != "" ||
		c.BasePath != "" || c.MaxDocument != 0 || c.MaxSchema != 0 || c.Timeout != 0 || c.MaxResponse != 0 || c.TokenBudget != nil ||
		len(c.Credentials) > 0 || len(c.NonInferrable) > 0
}

// Limits bound the calls of a toolset.
type Limits struct {
	Timeout     time.Duration // 0 or less: none
	MaxResponse int64         // bytes
}

func (c *ToolsetConfig) limits() Limits {
	l := Limits{Timeout: time.Duration(c.Timeout), MaxResponse: c.MaxResponse}
	if l.Timeout == 0 {
		l.Timeout = DefaultTimeout
	}
	if l.MaxResponse == 0 {
		l.MaxResponse = DefaultMaxResponse
	}
	return l
}

// sourceKind is where a document comes from.
type sourceKind string

const (
	SourceFile sourceKind = "file"
	sourceURL  sourceKind = "url"
	SourceSite sourceKind = "site"
)

// locate decides what the address of a document means. A file's path is made
// absolute.
func locate(address string) (kind sourceKind, where string, err error) {
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
		return "", "", fmt.Errorf("documents are read from files, http and https, not from %q (%s)", scheme, openapiHint(rest))
	case strings.HasPrefix(address, "/"):
		if file, err := os.Stat(address); err == nil && !file.IsDir() {
			return SourceFile, filepath.Clean(address), nil
		}
		return SourceSite, address, nil
	}
	where, err = filepath.Abs(address)
	return SourceFile, where, err
}

func openapiHint(rest string) string {
	return "is https://" + strings.SplitN(rest, "?", 2)[0] + " meant?"
}

// Key normalises the configuration. The name is that of a toolset; "" takes the
// document as it is written, without its secrets.
func (c *ToolsetConfig) Key(name string) (DocumentKey, error) {
	repl := caddy.NewReplacer()
	kind, address, err := locate(repl.ReplaceAll(c.OpenAPI, ""))
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
		BasePath:    repl.ReplaceAll(c.BasePath, ""),
		MaxDocument: c.MaxDocument,
		MaxSchema:   c.MaxSchema,
		TokenBudget: DefaultTokenBudget,

		NonInferrable: c.NonInferrable,
		Answers:       c.Answers,
	}
	if k.Name == "" {
		k.Name = WithoutSecrets(c.OpenAPI)
	}
	if c.TokenBudget != nil {
		k.TokenBudget = *c.TokenBudget
	}
	if k.Refresh == 0 || kind == SourceFile {
		k.Refresh = ocp.DefaultRefresh
	}
	if k.MaxDocument == 0 {
		k.MaxDocument = openapi.DefaultMaxDocument
	}
	if k.MaxSchema == 0 {
		k.MaxSchema = ocp.DefaultMaxSchema
	}
	if k.Schemas, err = schema.ParseMode(c.Schemas); err != nil {
		return DocumentKey{}, fmt.Errorf("schemas: %w", err)
	}
	if refs := repl.ReplaceAll(c.Refs, ""); refs != "" {
		if k.Refs, err = filepath.Abs(refs); err != nil {
			return DocumentKey{}, err
		}
	}
	return k, k.check()
}

// check refuses what can never work.
func (k *DocumentKey) check() error {
	switch {
	case k.MaxDocument < 0:
		return fmt.Errorf("max_document %d is negative: give a size, such as 64MiB", k.MaxDocument)
	case k.MaxSchema > 0 && k.MaxSchema < minMaxSchema:
		return fmt.Errorf("max_schema %d is too small: give %d bytes or more, such as 64KiB", k.MaxSchema, minMaxSchema)
	case k.MaxSchema > maxMaxSchema:
		return fmt.Errorf("max_schema %d is too large: give %d bytes at most, or off", k.MaxSchema, maxMaxSchema)
	case k.TokenBudget < 0:
		return fmt.Errorf("token_budget %d is negative: 0 turns the warning off", k.TokenBudget)
	case k.BasePath != "" && !strings.HasPrefix(k.BasePath, "/"):
		return fmt.Errorf("base_path %q does not begin with a slash", k.BasePath)
	case k.Refs != "" && k.Kind != SourceFile:
		return fmt.Errorf("refs is for documents that are files: $refs of %s cannot name other files", WithoutSecrets(k.Address))
	}
	for _, s := range append(append([]ocp.Selector(nil), k.Include...), k.Exclude...) {
		if err := s.Check(); err != nil {
			return err
		}
	}
	return nil
}

// WithoutSecrets returns an address without user, password, query and fragment.
func WithoutSecrets(address string) string {
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

// Toolset is a document as one configuration uses it.
type Toolset struct {
	Name string
	*Document
	Limits      Limits
	Credentials Credentials  // of the gateway for the API; none if callers show their own
	views       *filledViews // nil without credentials
}

// open provisions the configuration: see openDocument. Site tells apart documents
// of the site that have the same path on different sites.
func (c *ToolsetConfig) open(ctx caddy.Context, name, site string, logger *zap.Logger) (*Toolset, error) {
	if c.MaxResponse < 0 {
		return nil, fmt.Errorf("max_response %d is negative: give a size, such as 1MiB", c.MaxResponse)
	}
	key, err := c.Key(name)
	if err != nil {
		return nil, err
	}
	checked, err := NewCredentials(c.Credentials, logger)
	if err != nil {
		return nil, err
	}
	if key.Kind == SourceSite {
		key.Site = site
	}
	if strings.HasPrefix(c.OpenAPI, "/") {
		logger.Info("an absolute path is a document of the site itself, unless there is a file of that name",
			zap.String("openapi", c.OpenAPI), zap.String("taken_for", string(key.Kind)))
	}
	d, err := openDocument(ctx, key, logger)
	if err != nil {
		return nil, err
	}
	t := &Toolset{Name: key.Name, Document: d, Limits: c.limits(), Credentials: checked}
	if len(checked) > 0 {
		t.views = new(filledViews)
	}
	return t, nil
}

// WithAnswers returns the options of a toolset whose definitions say what its tools
// answer, which OTC wants of all.
func WithAnswers(config *ToolsetConfig) *ToolsetConfig {
	with := new(ToolsetConfig)
	if config != nil {
		*with = *config
	}
	with.Answers = true
	return with
}

// Qualifier returns the name of a toolset as it stands before those of its tools.
func (t *Toolset) Qualifier() string {
	name := t.Key.ShownName()
	return oagent.KebabName(strings.TrimSuffix(name, path.Ext(name)))
}
