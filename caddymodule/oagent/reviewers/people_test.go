package reviewers

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/internal/agentset"
	"github.com/fairwayhq/fairway/internal/identity"
	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/oagent/engagement"
	"github.com/fairwayhq/fairway/oagent/review"
)

// peopleService has people in three steps under the name boss, and the agent supervisor, for whom robot decides.
func peopleService() *Service {
	set := &agentset.Set{Agents: map[string]*agentset.Agent{}}
	for _, name := range []string{"desk", "supervisor"} {
		set.Agents[name] = &agentset.Agent{Agent: &oagent.Agent{Name: name}}
	}
	return &Service{options: Options{Set: func() *agentset.Set { return set }}, agents: map[string]*Agent{
		"supervisor": {Users: []string{"robot"}},
		"boss": {People: []People{
			{Who: []string{"ann", "bob", "group:managers"}},
			{Who: []string{"carol", "group:ops"}, After: caddy.Duration(2 * time.Hour)},
			{Who: []string{"group:directors"}, After: caddy.Duration(24 * time.Hour)},
		}},
	}}
}

// TestEntry_by_user_and_time decides who may decide when, and by which entry.
func TestEntry_by_user_and_time(t *testing.T) {
	s, asked := peopleService(), time.Now()
	const never = -1 * time.Hour
	member := func(id string, groups ...string) *identity.User { return &identity.User{ID: id, Groups: groups} }
	for name, c := range map[string]struct {
		user     *identity.User
		reviewer string
		from     time.Duration // after which the user may decide
		entry    string
	}{
		"a person":                        {member("bob"), "boss", 0, "bob"},
		"a member":                        {member("mia", "managers"), "boss", 0, "group:managers"},
		"a person and member":             {member("ann", "managers"), "boss", 0, "ann"},
		"the deputy":                      {member("carol"), "boss", 2 * time.Hour, "carol"},
		"a group of deputies":             {member("otto", "ops", "x"), "boss", 2 * time.Hour, "group:ops"},
		"the escalation":                  {member("dora", "directors"), "boss", 24 * time.Hour, "group:directors"},
		"another":                         {member("eve", "boss", "ann"), "boss", never, ""},
		"the name of the reviewer":        {member("boss"), "boss", never, ""},
		"the name of a group":             {member("group:managers"), "boss", never, ""},
		"unknown groups":                  {identity.Unknown("mia"), "boss", never, ""},
		"not logged in":                   {member("", "managers"), "boss", never, ""},
		"the requester":                   {member("ada", "managers", "ops", "directors"), "boss", never, ""},
		"a name that is not configured":   {member("grace"), "grace", 0, "grace"},
		"the requester, not configured":   {member("ada"), "ada", 0, "ada"},
		"a group, not configured":         {member("mia", "managers"), "group:managers", never, ""},
		"the name of an agent":            {member("supervisor"), "supervisor", never, ""},
		"nobody's name and not logged in": {member(""), "", never, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &review.Summary{Reviewer: c.reviewer, Agent: "desk", User: engagement.User{ID: "ada"}, AskedAt: asked}
			for _, waited := range []time.Duration{-time.Minute, 0, 2*time.Hour - 1, 2 * time.Hour, 24*time.Hour - 1, 24 * time.Hour, 100 * time.Hour} {
				by, may := s.Entry(c.user, r, asked.Add(waited))
				if want := c.from != never && max(waited, 0) >= c.from; may != want || may && by != (engagement.Decider{User: c.user.ID, Entry: c.entry}) {
					t.Errorf("after %s: got %t by %+v, want %t by %s", waited, may, by, want, c.entry)
				}
			}
		})
	}
	edited := &review.Summary{Reviewer: "boss", Agent: "desk", AskedAt: asked, Editor: "ann"}
	if by, may := s.Entry(member("ann"), edited, asked); may {
		t.Errorf("a review of arguments that the user has changed: got %+v", by)
	}
	if _, may := s.Entry(member("bob"), edited, asked); !may {
		t.Error("another one does not decide about changed arguments")
	}
	foreign := &review.Summary{Reviewer: "boss", Agent: "of-another-site", AskedAt: asked}
	if by, may := s.Entry(member("ann"), foreign, asked); may {
		t.Errorf("a review of an agent of another site: got %+v", by)
	}
}

// TestPeople_config refuses people who could never decide, and steps that do not follow each other.
func TestPeople_config(t *testing.T) {
	step := func(after time.Duration, who ...string) People { return People{Who: who, After: caddy.Duration(after)} }
	for name, c := range map[string]struct {
		agent Agent
		ok    bool
	}{
		"steps":             {Agent{People: []People{step(0, "a"), step(1, "b"), step(2, "b")}}, true},
		"no people":         {Agent{People: []People{step(0)}}, false},
		"an empty id":       {Agent{People: []People{step(0, "")}}, false},
		"an empty group":    {Agent{People: []People{step(0, "group:")}}, false},
		"late first step":   {Agent{People: []People{step(1, "a")}}, false},
		"equal times":       {Agent{People: []People{step(0, "a"), step(2, "b"), step(2, "c")}}, false},
		"falling times":     {Agent{People: []People{step(0, "a"), step(2, "b"), step(1, "c")}}, false},
		"two at once":       {Agent{People: []People{step(0, "a"), step(0, "b")}}, false},
		"after the end":     {Agent{People: []People{step(0, "a"), step(time.Hour, "b")}}, false},
		"users of an agent": {Agent{Users: []string{"robot"}, People: []People{step(0, "a")}}, false},
		"a program":         {Agent{AskRaw: []byte("{}"), People: []People{step(0, "a")}}, false},
	} {
		if err := c.agent.checkPeople(time.Hour); (err == nil) != c.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
