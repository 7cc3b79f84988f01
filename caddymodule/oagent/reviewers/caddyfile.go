package reviewers

import (
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/agents/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// UnmarshalBlock parses the subdirective reviewer. It returns the name of the agent and its
// configuration. Syntax:
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
//
// taken reports whether an earlier subdirective has configured the agent.
func UnmarshalBlock(outer *directive.Block, taken func(name string) bool) (name string, reviewer *Agent, err error) {
	arguments := outer.RemainingArgs()
	const usage = "reviewer needs an agent and the users who may decide for it, as in: reviewer supervisor alice bob; or the agent's program in a block: ask <url>"
	if len(arguments) == 0 {
		return "", nil, outer.Err(usage)
	}
	name, reviewer = arguments[0], &Agent{Users: arguments[1:]}
	if taken(name) {
		return "", nil, outer.Errf("reviewer %s is given twice", name)
	}
	program := new(Program)
	b := directive.NewBlock(outer.Dispenser)
	hasBlock := false
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		hasBlock = true
		if err := program.unmarshalOption(b); err != nil {
			return "", nil, err
		}
	}
	switch {
	case program.URL != "":
		reviewer.Ask = program
	case hasBlock:
		return "", nil, outer.Errf("the block of reviewer %s has no ask: add the URL of the agent's program, as in: ask https://supervisor.example.com/reviews", name)
	case len(reviewer.Users) == 0:
		return "", nil, outer.Err(usage)
	}
	return name, reviewer, nil
}

func (p *Program) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "ask":
		if err := b.Text(&p.URL); err != nil {
			return err
		}
		if strings.Contains(p.URL, "{") {
			return nil
		}
		if err := checkURL(p.URL); err != nil {
			return b.Errf("ask: %v", err)
		}
		return nil
	case "header":
		return credential.ReadHeader(b, "header", &p.Credentials)
	case "credential":
		return credential.Read(b, &p.Credentials)
	case "timeout":
		return b.Period(&p.Timeout)
	}
	return b.Unrecognized("reviewer")
}
