package oagent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/agents"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// Limits on the response time of a reviewing agent's program.
const (
	DefaultAskTimeout = 30 * time.Second
	MaxAskTimeout     = 10 * time.Minute
)

// ReviewingAgent configures who decides when an agent must review.
type ReviewingAgent struct {
	// The users who may decide for the agent. A request by one of them counts as the agent's
	// if guard selects that agent for the request. Default: none.
	Users []string `json:"users,omitempty"`

	// The agent's program to call about each review. Default: none; one of the users must list
	// the reviews instead.
	Ask *ReviewerAsk `json:"ask,omitempty"`
}

// ReviewerAsk configures calls of a reviewing agent's program. The gateway sends a POST with
// the review, in the form of the review endpoint. The program responds in one of these ways:
//
//   - {"decision": "approve" or "deny", "comment": "…"}
//   - 202, if it decides later
//   - anything else decides nothing, and the program is called again after a delay
type ReviewerAsk struct {
	// The URL of the program, as https://host/path. Placeholders such as {env.NAME} are
	// replaced. Required. Default: none.
	URL string `json:"url,omitempty"`

	// The credentials to send to the program. Default: none.
	Credentials []agents.Credential `json:"credentials,omitempty"`

	// The timeout of one call, at most 10m. Default: 30s.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	url         string // with placeholders replaced
	credentials agents.Credentials
}

// provisionReviewers checks the reviewers.
func (o *Handler) provisionReviewers() error {
	for _, name := range slices.Sorted(maps.Keys(o.Reviewers)) {
		if err := o.Reviewers[name].provision(o.logger); err != nil {
			return fmt.Errorf("reviewer %s: %w", name, err)
		}
	}
	return nil
}

func (r *ReviewingAgent) provision(logger *zap.Logger) error {
	if r == nil || len(r.Users) == 0 && r.Ask == nil {
		return errors.New("nobody decides for it: name users, or give ask a URL")
	}
	if slices.Contains(r.Users, "") {
		return errors.New("the name of a user is empty")
	}
	if r.Ask == nil {
		return nil
	}
	return r.Ask.provision(logger)
}

func (a *ReviewerAsk) provision(logger *zap.Logger) (err error) {
	a.url = caddy.NewReplacer().ReplaceAll(a.URL, "")
	if err := checkAskURL(a.url); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	if a.credentials, err = agents.NewCredentials(a.Credentials, logger); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	if a.Timeout == 0 {
		a.Timeout = caddy.Duration(DefaultAskTimeout)
	}
	if a.Timeout < 0 || time.Duration(a.Timeout) > MaxAskTimeout {
		return fmt.Errorf("ask: timeout %s: it is more than 0 and at most %s", time.Duration(a.Timeout), MaxAskTimeout)
	}
	return nil
}

// checkAskURL checks the URL of a program. Errors do not quote the URL, because it may contain
// a secret.
func checkAskURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("the URL begins with https:// or http:// and a host, as in: ask https://supervisor.example.com/reviews")
	case u.User != nil:
		return errors.New("the URL has a user in it: use credential basic")
	case u.Fragment != "":
		return errors.New("the URL has a fragment, which is not sent")
	}
	return nil
}

// unmarshalReviewer reads the subdirective reviewer. Syntax:
//
//	reviewer <agent> [<users...>] {
//		ask        <url>
//		header     <name> <value>
//		credential header | query <name> <value>
//		credential basic <user> <password>
//		timeout    <duration>
//	}
//
// where header, which is credential header, and credential may be repeated.
func (o *Handler) unmarshalReviewer(outer *directive.Block) error {
	arguments := outer.RemainingArgs()
	const usage = "reviewer needs an agent and the users who answer for it, as in: reviewer supervisor alice bob; or its program, in a block: ask <url>"
	if len(arguments) == 0 {
		return outer.Err(usage)
	}
	name := arguments[0]
	if _, twice := o.Reviewers[name]; twice {
		return outer.Errf("reviewer %s is given twice", name)
	}
	reviewer, ask := &ReviewingAgent{Users: arguments[1:]}, new(ReviewerAsk)
	b := directive.NewBlock(outer.Dispenser)
	hasBlock := false
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		hasBlock = true
		if err := ask.unmarshalOption(b); err != nil {
			return err
		}
	}
	switch {
	case ask.URL != "":
		reviewer.Ask = ask
	case hasBlock:
		return outer.Errf("reviewer %s has a block without ask: say where the agent's program is, as in: ask https://supervisor.example.com/reviews", name)
	case len(reviewer.Users) == 0:
		return outer.Err(usage)
	}
	if o.Reviewers == nil {
		o.Reviewers = make(map[string]*ReviewingAgent)
	}
	o.Reviewers[name] = reviewer
	return nil
}

func (a *ReviewerAsk) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "ask":
		if err := b.Text(&a.URL); err != nil {
			return err
		}
		if strings.Contains(a.URL, "{") {
			return nil
		}
		if err := checkAskURL(a.URL); err != nil {
			return b.Errf("ask: %v", err)
		}
		return nil
	case "header":
		return readNamedHeader(b, "header", &a.Credentials)
	case "credential":
		return agents.ReadCredential(b, &a.Credentials)
	case "timeout":
		return b.Period(&a.Timeout)
	}
	return b.Unrecognized("reviewer")
}

// answersFor reports whether the user may decide for the agent.
func (o *Handler) answersFor(user, agent string) bool {
	r := o.Reviewers[agent]
	return r != nil && user != "" && slices.Contains(r.Users, user)
}

// bindReviewing selects the Engagement in which an agent reviews, if the request's id names it
// and the user may decide for the agent. So the calls that the agent's program makes while it
// decides belong to that Engagement. For other users, the id is an ordinary id.
func (o *Handler) bindReviewing(b *oagent.Binding) {
	if len(o.Reviewers) == 0 || b.Agent == nil {
		return
	}
	if reviewed, ok := review.ReviewedBy(b.Engagement); ok && o.answersFor(b.User.ID, b.Agent.Name) {
		b.Reviewed, b.User.Email = reviewed, "" // the Engagement belongs to the user of the Engagement under review
	}
}

// shownReview is a review as its reviewer sees it.
type shownReview struct {
	*review.Review
	Engagement jsontext.Value `json:"engagement"`         // see review.Queue.Engagement; null if it no longer exists
	Reviewing  string         `json:"reviewing,omitzero"` // for an agent: id of the Engagement in which it decides
	Intent     string         `json:"intent,omitzero"`    // of the deciding agent
	Location   string         `json:"location,omitzero"`  // path to decide it; "" if the site has no review endpoint
}

func (o *Handler) shownReview(ctx context.Context, guard *oagent.Guard, r *review.Review, agent *oagent.Agent) (*shownReview, error) {
	shown := &shownReview{Review: r}
	if reviews := o.extras.pages.reviews; reviews != "" {
		shown.Location = reviews + "/" + r.ID
	}
	if agent != nil {
		shown.Intent, shown.Reviewing = agent.Intent, reviewing(agent, r).Engagement
	}
	var err error
	if shown.Engagement, err = guard.Reviews.Engagement(ctx, r); errors.Is(err, engagement.ErrNotFound) {
		err = nil
	}
	return shown, err
}

// reviewing returns the Engagement in which the agent decides a review.
func reviewing(agent *oagent.Agent, r *review.Review) oagent.Binding {
	return oagent.Reviewing(agent, r.Key, r.User)
}

// checkQuestion calls the input guardrail of a reviewing agent with the JSON that the agent is
// about to read. It does so each time, even if the review is already decided. The error is a
// *engagement.Refusal.
func (o *Handler) checkQuestion(ctx context.Context, guard *oagent.Guard, agent *oagent.Agent, r *review.Review, question []byte) error {
	if r.Status == engagement.ReviewPending {
		if err := guard.Reviews.Question(ctx, r); err != nil {
			return err
		}
	}
	if agent.Input == nil {
		return nil
	}
	return o.askGuardrail(ctx, guard, agent, r, engagement.SideInput, string(question), "")
}

// decideFor records a reviewing agent's decision. Its output guardrail checks the comment
// first, because others can read it.
func (o *Handler) decideFor(ctx context.Context, guard *oagent.Guard, agent *oagent.Agent, r *review.Review, approve bool, comment string) (*review.Review, error) {
	if comment != "" && agent.Output != nil && r.Status == engagement.ReviewPending {
		if err := guard.Reviews.Question(ctx, r); err != nil {
			return nil, err
		}
		if err := o.askGuardrail(ctx, guard, agent, r, engagement.SideOutput, string(r.Inputs), comment); err != nil {
			return nil, err
		}
	}
	return guard.Reviews.Decide(ctx, r.ID, oagent.Scheme+agent.Name, approve, comment)
}

// askGuardrail calls a guardrail of a reviewing agent, like a guardrail on model traffic. If
// its assertion does not hold, the Engagement in which the agent reviews ends, and the review
// is denied.
func (o *Handler) askGuardrail(ctx context.Context, guard *oagent.Guard, agent *oagent.Agent, r *review.Review, side engagement.Side, input, output string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
	if err != nil {
		return err
	}
	x := &chatExchange{
		passage: &passage{Handler: o, r: request, linked: o.agents.Current(), binding: reviewing(agent, r)},
		Chat:    o.guardrailChat(),
		guard:   guard,
	}
	err = x.ask(side, input, output)
	if refusal, ok := engagement.AsRefusal(err); ok && refusal.Ends() {
		return errors.Join(refusal, guard.Reviews.Question(ctx, r)) // Question denies the review
	}
	return err
}

// guardrailChat returns the options for calls of guardrails' tools.
func (o *Handler) guardrailChat() *Chat {
	if o.Chat != nil {
		return o.Chat
	}
	return &Chat{logger: o.logger}
}
