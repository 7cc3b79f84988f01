package hosted

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
	"github.com/fairwayhq/fairway/oagent/hosted/run"
)

// Budget is how many tokens of models hosted agents can use on one day (UTC), or what they can cost. An agent that reaches a budget ends. Nodes that
// share a store share the budget.
type Budget struct {
	// Whose budget it is: user, group, agent or total. Required.
	Of string `json:"of,omitempty"`

	// The id of the user, or the name of the group or of the agent. A group must be named, and total has no name. Default: each
	// user or agent that has no budget of its own.
	Name string `json:"name,omitempty"`

	// The number of tokens, of requests and responses together. Required, unless there is a cost.
	Tokens int64 `json:"tokens,omitempty"`

	// What the tokens can cost, in the currency of the prices. Default: no limit.
	Cost float64 `json:"cost,omitempty"`
}

const (
	ofUser  = "user"
	ofGroup = "group"
	ofAgent = "agent"
	ofTotal = "total"
)

// check returns an error for an invalid budget.
func (b *Budget) check() error {
	switch {
	case b.Of != ofUser && b.Of != ofGroup && b.Of != ofAgent && b.Of != ofTotal:
		return fmt.Errorf("budget %q: must be of user, group, agent or total", b.Of)
	case b.Of == ofGroup && b.Name == "":
		return errors.New("budget group: the name of the group is missing")
	case b.Of == ofTotal && b.Name != "":
		return errors.New("budget total: has no name")
	case b.Tokens < 0 || !(b.Cost >= 0 && b.Cost <= model.MaxPrice) || (b.Tokens > 0) == (b.Cost > 0):
		return fmt.Errorf("budget %s: the number of tokens must be more than 0, or there must be a cost of at most %v instead", b.Of, model.MaxPrice)
	}
	return nil
}

// checkBudgets returns an error for invalid budgets or prices, or for two of the same.
func checkBudgets(all []Budget, prices []Price) error {
	seen := make(map[Budget]bool)
	for _, b := range all {
		if err := b.check(); err != nil {
			return err
		}
		if b.Cost > 0 && len(prices) == 0 {
			return fmt.Errorf("budget %s: a cost needs the prices of the models: add prices", b.Of)
		}
		kind := Budget{Of: b.Of, Name: b.Name, Tokens: min(b.Tokens, 1)}
		if seen[kind] {
			return fmt.Errorf("budget %s %s is given twice", b.Of, b.Name)
		}
		seen[kind] = true
	}
	_, err := priceTable(prices)
	return err
}

// budgetsOf returns the budgets that apply to a run.
func budgetsOf(all []Budget, of *run.Assignment) (apply []run.Budget) {
	names := map[string][]string{ofUser: {of.User.ID}, ofAgent: {of.Agent}, ofGroup: groupsOf(of), ofTotal: {""}}
	for _, b := range all {
		for _, name := range names[b.Of] {
			own := func(other Budget) bool {
				return other.Of == b.Of && other.Name == name && (other.Cost > 0) == (b.Cost > 0)
			}
			if b.Name != name && (b.Name != "" || slices.ContainsFunc(all, own)) {
				continue
			}
			at := slices.IndexFunc(apply, func(a run.Budget) bool { return a.Of == b.Of && a.Name == name })
			if at < 0 { // those of tokens and of cost share a record of what was spent
				at = len(apply)
				apply = append(apply, run.Budget{Of: b.Of, Name: name})
			}
			apply[at].Tokens += b.Tokens
			apply[at].Cost += int64(b.Cost * 1e9)
		}
	}
	return apply
}

// unmarshalBudgets parses the option budget at the current token of b. Syntax:
//
//	budget {
//		user  [<id>]   <tokens> | cost <amount>
//		group <name>   <tokens> | cost <amount>
//		agent [<name>] <tokens> | cost <amount>
//		total <tokens> | cost <amount>
//	}
func (c *Config) unmarshalBudgets(outer *directive.Block) error {
	if outer.NextArg() {
		return outer.ArgErr()
	}
	b := directive.NewBlock(outer.Dispenser)
	read := func() error {
		budget := Budget{Of: b.Val()}
		args := b.RemainingArgs()
		if len(args) == 0 {
			return b.ArgErr()
		}
		names, amount := args[:len(args)-1], args[len(args)-1]
		var err error
		if last := len(names) - 1; last >= 0 && names[last] == "cost" {
			names = names[:last]
			if budget.Cost, err = strconv.ParseFloat(amount, 64); err != nil {
				return b.Errf("budget %s: %q is not an amount of money", budget.Of, amount)
			}
		} else if budget.Tokens, err = strconv.ParseInt(amount, 10, 64); err != nil {
			return b.Errf("budget %s: %q is not a number of tokens", budget.Of, amount)
		}
		if len(names) > 1 {
			return b.ArgErr()
		}
		budget.Name = strings.Join(names, "")
		c.Budgets = append(c.Budgets, budget)
		if err := budget.check(); err != nil {
			return b.WrapErr(err)
		}
		return nil
	}
	return b.Read("budget", directive.Options{ofUser: read, ofGroup: read, ofAgent: read, ofTotal: read})
}
