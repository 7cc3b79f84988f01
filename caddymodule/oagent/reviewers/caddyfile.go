package reviewers

import (
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// UnmarshalBlock parses the subdirective reviewer. It returns the name of the agent and its
// configuration. Syntax:
//
//	reviewer <agent> [<users...>] {
//		ask        <url> | <module> ...
//		header     <name> <value>
//		credential header | query <name> <value>
//		credential basic <user> <password>
//		timeout    <duration>
//	}
//
// where header, which is credential header, and credential may be repeated. They are for ask with a URL, which is the
// module http. The rest of another ask depends on the module oagent.reviewers.<module>.
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
		if err := reviewer.unmarshalOption(b, program); err != nil {
			return "", nil, err
		}
	}
	switch {
	case reviewer.AskRaw != nil && len(program.Credentials) > 0:
		return "", nil, outer.Errf("header and credential of reviewer %s are for ask with a URL", name)
	case reviewer.AskRaw != nil:
	case program.URL != "":
		reviewer.AskRaw = caddyconfig.JSONModuleObject(program, InlineKey, "http", nil)
	case hasBlock:
		return "", nil, outer.Errf("the block of reviewer %s has no ask: add the URL of the agent's program, as in: ask https://supervisor.example.com/reviews", name)
	case len(reviewer.Users) == 0:
		return "", nil, outer.Err(usage)
	}
	return name, reviewer, nil
}

// unmarshalOption reads an option. Those of ask with a URL go to the program.
func (a *Agent) unmarshalOption(b *directive.Block, program *Program) (err error) {
	switch b.Val() {
	case "ask":
		if b.NextArg() {
			word := b.Val()
			b.Prev()
			if isModule(word) {
				if err := b.Once(); err != nil {
					return err
				}
				a.AskRaw, err = b.Guest(Namespace, InlineKey)
				return err
			}
		}
		if err := b.Text(&program.URL); err != nil {
			return err
		}
		if err := checkUnlessPlaceholder(program.URL); err != nil {
			return b.WrapErr(err)
		}
		return nil
	case "timeout":
		return b.Period(&a.Timeout)
	}
	return program.unmarshalOption(b)
}

// isModule reports whether a word is the name of a module and not a URL.
func isModule(word string) bool {
	_, err := caddy.GetModule(Namespace + "." + word)
	return err == nil
}

// checkUnlessPlaceholder checks a URL of a Caddyfile.
func checkUnlessPlaceholder(url string) error {
	if strings.Contains(url, "{") {
		return nil
	}
	if err := checkURL(url); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	return nil
}

func (a *Program) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "header":
		return credential.ReadHeader(b, "header", &a.Credentials)
	case "credential":
		return credential.Read(b, &a.Credentials)
	}
	return b.Unrecognized("reviewer")
}

// UnmarshalCaddyfile parses the options of the module. Syntax:
//
//	http <url> {
//		header     <name> <value>
//		credential <module> ...
//	}
func (a *Program) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // http
	if !d.AllArgs(&a.URL) {
		return d.Err("http needs a URL, as in: ask http https://supervisor.example.com/reviews")
	}
	if err := checkUnlessPlaceholder(a.URL); err != nil {
		return d.WrapErr(err)
	}
	b := directive.NewBlock(d)
	return b.Options(a.unmarshalOption)
}
