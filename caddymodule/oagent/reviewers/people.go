package reviewers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// People are users of whom any one may decide a review, after a time.
type People struct {
	// The ids of users. An entry group:NAME is for the members of a group. Required. Default: none.
	Who []string `json:"who,omitempty"`

	// How long a review must have waited before these users may decide it too. It grows from one entry of
	// people to the next. Default: 0; they may decide at once.
	After caddy.Duration `json:"after,omitempty"`
}

// HasPeople reports whether people decide the reviews of a name.
func (a *Agent) HasPeople() bool { return a != nil && len(a.People) > 0 }

// checkPeople checks the people. Reviews expire after ttl.
func (a *Agent) checkPeople(ttl time.Duration) error {
	if len(a.Users) > 0 || a.AskRaw != nil || a.Timeout != 0 {
		return errPeopleAlone
	}
	before := caddy.Duration(-1)
	for i, p := range a.People {
		if len(p.Who) == 0 || slices.Contains(p.Who, "") {
			return errors.New("people without the id of a user or group:NAME")
		}
		for _, entry := range p.Who {
			if err := identity.CheckEntry(entry); err != nil {
				return fmt.Errorf("people %s: %w", entry, err)
			}
		}
		switch after := time.Duration(p.After); {
		case i == 0 && after != 0:
			return errors.New("the first line of people has after, so that no one could decide before: remove it")
		case p.After <= before:
			return fmt.Errorf("people %s after %s: after must be longer than in the line before; people who may decide from the same time on are in one line", strings.Join(p.Who, " "), after)
		case after >= ttl:
			return fmt.Errorf("people %s after %s: reviews expire before, after the engagement_ttl of %s", strings.Join(p.Who, " "), after, ttl)
		}
		before = p.After
	}
	return nil
}

var errPeopleAlone = errors.New("people is for persons who decide, and users, ask and its options are for an agent: use one of the two")

var errEditPeople = errors.New("may_edit is for people: agents do not change arguments")

// MayEdit reports whether those who decide the reviews of a name may change the arguments of a call.
func (s *Service) MayEdit(reviewer string) bool {
	a := s.agents[reviewer]
	return a.HasPeople() && a.MayEdit
}

// readPeople reads a line of people.
func (a *Agent) readPeople(b *directive.Block) error {
	words, p := b.RemainingArgs(), People{}
	if i := slices.Index(words, "after"); i >= 0 {
		after, err := time.Duration(0), errors.New("missing")
		if i == len(words)-2 {
			after, err = caddy.ParseDuration(words[i+1])
		}
		if err != nil || after <= 0 {
			return b.Err("after needs one duration at the end of the line, as in: people carol group:ops after 2h")
		}
		p.After, words = caddy.Duration(after), words[:i]
	}
	if len(words) == 0 {
		return b.Err("people needs ids of users or group:NAME, as in: people ann bob group:managers")
	}
	p.Who = words
	a.People = append(a.People, p)
	return nil
}

// Names returns the names under which a user may decide reviews, at some time: the user's id, and those of
// which the user is one of the people. Entry decides about each review. A user whose id is the name of an
// agent, or a name that is configured, does not decide under this name.
func (s *Service) Names(user *identity.User) (names []string) {
	if user.ID == "" {
		return nil
	}
	isAgent := strings.HasPrefix(user.ID, oagent.Scheme) ||
		slices.ContainsFunc(s.options.Set().Documents(), func(a *oagent.Agent) bool { return a.Name == user.ID })
	if !isAgent && !s.Has(user.ID) {
		names = append(names, user.ID)
	}
	for name, a := range s.agents {
		if slices.ContainsFunc(a.People, func(p People) bool { return user.IsIn(p.Who) }) {
			names = append(names, name)
		}
	}
	return names
}

// Due returns whose time to decide a review has come. It is the same on all nodes, because it depends only on
// the configuration and on when the review was requested. If no people are configured for the reviewer, Due
// returns one entry without ids. Configured people decide only about the agents of this site.
func (s *Service) Due(r *review.Summary, now time.Time) []People {
	a := s.agents[r.Reviewer]
	switch {
	case !a.HasPeople():
		return []People{{}}
	case s.options.Set().Agents[r.Agent] == nil:
		return nil
	}
	waited := caddy.Duration(max(now.Sub(r.AskedAt), 0))
	if n := slices.IndexFunc(a.People, func(p People) bool { return p.After > waited }); n >= 0 {
		return a.People[:n]
	}
	return a.People
}

// Entry reports whether a user may decide a review at a time, and by which entry of the people, such as
// group:managers. A name that is not configured is the id of the user who decides. The user whose call needs
// the review is never one of the people. Nor does the user decide who has changed the arguments under review: another one must approve them.
func (s *Service) Entry(user *identity.User, r *review.Summary, now time.Time) (by engagement.Decider, may bool) {
	switch a, configured := s.agents[r.Reviewer]; {
	case user.ID == "" || user.ID == r.Editor:
		return by, false
	case !configured:
		return engagement.Decider{User: user.ID, Entry: user.ID}, user.ID == r.Reviewer
	case !a.HasPeople() || user.ID == r.User.ID:
		return by, false
	}
	for _, p := range s.Due(r, now) {
		for i, entry := range p.Who {
			if user.IsIn(p.Who[i : i+1]) {
				return engagement.Decider{User: user.ID, Entry: entry}, true
			}
		}
	}
	return by, false
}
