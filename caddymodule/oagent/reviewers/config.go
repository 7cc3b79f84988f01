package reviewers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents/credential"
)

// Limits on the response time of a reviewing agent's program.
const (
	DefaultAskTimeout = 30 * time.Second
	MaxAskTimeout     = 10 * time.Minute
)

// Agent configures who decides when an agent must review.
type Agent struct {
	// The users who may decide for the agent. A request by one of them counts as the agent's
	// if guard selects that agent for the request. Default: none.
	Users []string `json:"users,omitempty"`

	// The agent's program to call about each review. Default: none; one of the users must list
	// the reviews instead.
	Ask *Program `json:"ask,omitempty"`
}

// Program configures calls of a reviewing agent's program. The gateway sends a POST with
// the review, in the form of the review endpoint. The program responds in one of these ways:
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

	// The timeout of one call, at most 10m. Default: 30s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	url         string // with placeholders replaced
	credentials credential.Set
}

func (a *Agent) provision(ctx caddy.Context, logger *zap.Logger) error {
	if a == nil || len(a.Users) == 0 && a.Ask == nil {
		return errors.New("no one can decide for the agent: add users, or ask with a URL")
	}
	if slices.Contains(a.Users, "") {
		return errors.New("user name is empty")
	}
	if a.Ask == nil {
		return nil
	}
	return a.Ask.provision(ctx, logger)
}

func (p *Program) provision(ctx caddy.Context, logger *zap.Logger) (err error) {
	p.url = caddy.NewReplacer().ReplaceAll(p.URL, "")
	if err := checkURL(p.url); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	if p.credentials, err = credential.Load(ctx, p.Credentials, logger); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	if p.Timeout == 0 {
		p.Timeout = caddy.Duration(DefaultAskTimeout)
	}
	if p.Timeout < 0 || time.Duration(p.Timeout) > MaxAskTimeout {
		return fmt.Errorf("ask: timeout %s: must be more than 0 and at most %s", time.Duration(p.Timeout), MaxAskTimeout)
	}
	return nil
}

// checkURL checks the URL of a program. Errors do not quote the URL, because it may contain
// a secret.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("the URL must begin with https:// or http:// and have a host, as in: ask https://supervisor.example.com/reviews")
	case u.User != nil:
		return errors.New("the URL contains a user: use credential basic instead")
	case u.Fragment != "":
		return errors.New("the URL has a fragment, which is never sent: remove it")
	}
	return nil
}
