package reviewers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/internal/calltrace"
	"github.com/fairwayhq/fairway/internal/webhook"
)

// Limits on the response time of a reviewing agent's program.
const (
	defaultAskTimeout = 30 * time.Second
	maxAskTimeout     = 10 * time.Minute
)

// Agent configures who decides reviews: an agent, or people.
type Agent struct {
	// The people who decide, if the name is not that of an agent: any one of the first, and of each next
	// from its time on. Default: none; the name is that of an agent.
	People []People `json:"people,omitempty"`

	// Whether the people may change the arguments of a tool call when they approve it. Default: false.
	MayEdit bool `json:"may_edit,omitempty"`

	// The users who may decide for the agent. A request by one of them counts as the agent's
	// if guard selects that agent for the request. Default: none.
	Users []string `json:"users,omitempty"`

	// The agent's program to ask about each review. Default: none; one of the users must list
	// the reviews instead.
	AskRaw json.RawMessage `json:"ask,omitempty" caddy:"namespace=oagent.reviewers inline_key=module"`

	// How long the program may take for one review, at most 10m. Default: 30s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	asker Asker // nil if there is no program
}

// Program asks a URL. The gateway sends a POST with the review, in the form of the review endpoint. The
// program responds in one of these ways:
//
//   - {"decision": "approve" or "deny", "comment": "…"}
//   - 202, if it decides later
//   - anything else decides nothing, and the program is called again after a delay
type Program struct {
	// The URL of the program, as https://host/path. Placeholders such as {env.NAME} are
	// replaced. Required. Default: none.
	URL string `json:"url,omitempty"`

	// The credentials to send to the program. Default: none.
	Credentials []json.RawMessage `json:"credentials,omitempty" caddy:"namespace=agents.credentials inline_key=in"`

	url    string // with placeholders replaced
	client *webhook.Client
}

func init() {
	caddy.RegisterModule(new(Program))
}

// CaddyModule returns the Caddy module information.
func (*Program) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: namespace + ".http", New: func() caddy.Module { return new(Program) }}
}

func (a *Agent) provision(ctx caddy.Context, ttl time.Duration) error {
	switch {
	case a.HasPeople():
		return a.checkPeople(ttl)
	case a == nil || len(a.Users) == 0 && a.AskRaw == nil:
		return errors.New("no one can decide: add people, or for an agent add users, or ask with a URL")
	}
	if slices.Contains(a.Users, "") {
		return errors.New("user name is empty")
	}
	if a.MayEdit {
		return errEditPeople
	}
	a.Timeout = cmp.Or(a.Timeout, caddy.Duration(defaultAskTimeout))
	if a.Timeout < 0 || time.Duration(a.Timeout) > maxAskTimeout {
		return fmt.Errorf("timeout %s: must be more than 0 and at most %s", time.Duration(a.Timeout), maxAskTimeout)
	}
	if a.AskRaw == nil {
		return nil
	}
	loaded, err := ctx.LoadModule(a, "AskRaw")
	if err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	asker, ok := loaded.(Asker)
	if !ok {
		return fmt.Errorf("ask: the module %T does not decide reviews", loaded)
	}
	a.asker = asker
	return nil
}

// Provision checks the options.
func (a *Program) Provision(ctx caddy.Context) (err error) {
	a.url = caddy.NewReplacer().ReplaceAll(a.URL, "")
	if err := checkURL(a.url); err != nil {
		return err
	}
	credentials, err := credential.Load(ctx, a.Credentials, ctx.Logger())
	if err != nil {
		return err
	}
	a.client, err = webhook.NewUntimed(a.url, func(r *http.Request) error {
		r.Header.Set("Accept", "application/json")
		calltrace.Inject(r.Context(), r.Header)
		return credentials.Apply(r)
	})
	return err
}

// Cleanup closes the connections.
func (a *Program) Cleanup() error {
	a.client.Close()
	return nil
}

// checkURL checks the URL of a program. Errors do not quote the URL, because it may contain
// a secret.
func checkURL(text string) error {
	if u, err := url.Parse(text); err == nil && u.User != nil {
		return errors.New("the URL contains a user: use credential basic instead")
	}
	return webhook.CheckURL(text)
}

// Interface guards
var (
	_ Asker                 = (*Program)(nil)
	_ caddy.Provisioner     = (*Program)(nil)
	_ caddy.CleanerUpper    = (*Program)(nil)
	_ caddyfile.Unmarshaler = (*Program)(nil)
)
