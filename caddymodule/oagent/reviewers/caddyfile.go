package reviewers

import (
	"fmt"
	"math"
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
//	reviewer <name> {
//		people     <users...> [after <duration>]
//		may_edit
//	}
//	reviewer <agent> [<users...>] {
//		ask        <url> | <module> ...
//		header     <name> <value>
//		credential header | query <name> <value>
//		credential basic <user> <password>
//		timeout    <duration>
//	}
//
// where people may be repeated with a longer duration each, and so may header, which is credential header, and credential. These two are for ask with a URL, which is the
// module http. The rest of another ask depends on the module oagent.reviewers.<module>.
//
// taken reports whether an earlier subdirective has configured the agent.
func UnmarshalBlock(outer *directive.Block, taken func(name string) bool) (name string, reviewer *Agent, err error) {
	arguments := outer.RemainingArgs()
	const usage = "reviewer needs a name and who decides in a block, as in: people alice group:managers; or an agent and the users who may decide for it, as in: reviewer supervisor alice bob; or the agent's program in a block: ask <url>"
	if len(arguments) == 0 {
		return "", nil, outer.Err(usage)
	}
	name, reviewer = arguments[0], &Agent{Users: arguments[1:]}
	if taken(name) {
		return "", nil, outer.Errf("reviewer %s is given twice", name)
	}
	program := new(Program)
	b := directive.NewBlock(outer.Dispenser)
	options := program.options(b)
	options["ask"] = func() error { return reviewer.readAsk(b, program) }
	options["people"] = func() error { return reviewer.readPeople(b) }
	options["may_edit"] = directive.To(b.Flag, &reviewer.MayEdit)
	options["timeout"] = directive.To(b.Period, &reviewer.Timeout)
	if err := b.Read("reviewer", options); err != nil {
		return "", nil, err
	}
	switch {
	case reviewer.HasPeople() && (program.URL != "" || len(program.Credentials) > 0):
		return "", nil, outer.Errf("reviewer %s: %v", name, errPeopleAlone)
	case reviewer.HasPeople():
		if err := reviewer.checkPeople(math.MaxInt64); err != nil {
			return "", nil, outer.Errf("reviewer %s: %v", name, err)
		}
	case reviewer.MayEdit:
		return "", nil, outer.Errf("reviewer %s: %v", name, errEditPeople)
	case reviewer.AskRaw != nil && len(program.Credentials) > 0:
		return "", nil, outer.Errf("header and credential of reviewer %s are for ask with a URL", name)
	case reviewer.AskRaw != nil:
	case program.URL != "":
		reviewer.AskRaw = caddyconfig.JSONModuleObject(program, inlineKey, "http", nil)
	case reviewer.Timeout > 0 || len(program.Credentials) > 0:
		return "", nil, outer.Errf("the block of reviewer %s has no ask: add the URL of the agent's program, as in: ask https://supervisor.example.com/reviews", name)
	case len(reviewer.Users) == 0:
		return "", nil, outer.Err(usage)
	}
	return name, reviewer, nil
}

// readAsk reads a URL, which goes to the program, or a module.
func (a *Agent) readAsk(b *directive.Block, program *Program) (err error) {
	if b.NextArg() {
		word := b.Val()
		b.Prev()
		if isModule(word) {
			if err := b.Once(); err != nil {
				return err
			}
			a.AskRaw, err = b.Guest(namespace, inlineKey)
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
}

// isModule reports whether a word is the name of a module and not a URL.
func isModule(word string) bool {
	_, err := caddy.GetModule(namespace + "." + word)
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

// options are the subdirectives for the credentials of the program.
func (a *Program) options(b *directive.Block) directive.Options {
	return directive.Options{
		"header":     func() error { return credential.ReadHeader(b, "header", &a.Credentials) },
		"credential": func() error { return credential.Read(b, &a.Credentials) },
	}
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
	return b.Read("reviewer", a.options(b))
}
