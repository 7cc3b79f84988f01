// Package inspect loads the inspectors of a toolset or of a model: guest modules of the namespace agents.inspectors. Package inspectors
// has those that come with Fairway.
package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/tools/inspect"
)

// Namespace is the namespace of inspectors, and inlineKey the member with the name of the module.
const (
	Namespace = "agents.inspectors"
	inlineKey = "inspector"
)

// Read parses the subdirective inspect at the current token of b and adds the inspector. Syntax:
//
//	inspect <module> ...
//
// where the rest depends on the module agents.inspectors.<module>. In a toolset, the phases of inspectors are arguments, result, error,
// resources, prompts and list. In a model of hosted agents, they are request and response.
func Read(b *directive.Block, to *[]json.RawMessage) error {
	raw, err := b.Guest(Namespace, inlineKey)
	if err != nil {
		return err
	}
	*to = append(*to, raw)
	return nil
}

// Module is an inspector of a toolset: a guest module of agents.inspectors.
type Module interface {
	// Step returns the inspector with its phases.
	Step() (inspect.Step, error)
}

// Load provisions the inspectors of a place.
func Load(ctx caddy.Context, p Place, configs []json.RawMessage) (inspect.Chain, error) {
	if len(configs) == 0 {
		return nil, nil
	}
	holder := struct {
		Inspectors []json.RawMessage `caddy:"namespace=agents.inspectors inline_key=inspector"`
	}{configs}
	loaded, err := ctx.LoadModule(&holder, "Inspectors")
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	var chain inspect.Chain
	for n, value := range loaded.([]any) {
		module, ok := value.(Module)
		if !ok {
			return nil, fmt.Errorf("inspect: the module %T is not an inspector", value)
		}
		step, err := module.Step()
		if err == nil {
			err = checkReview(&step)
		}
		if err != nil {
			return nil, fmt.Errorf("inspect %s: %w", step.Name, err)
		}
		if err := p.restrict(&step, configs[n]); err != nil {
			return nil, fmt.Errorf("inspect %s: %w", step.Name, err)
		}
		if err := p.restrictLogOnly(&step); err != nil {
			return nil, fmt.Errorf("inspect %s log_only: %w", step.Name, err)
		}
		chain = append(chain, step)
	}
	return chain, nil
}

// checkReview rejects an inspector whose reviews are not possible.
func checkReview(step *inspect.Step) error {
	switch {
	case step.Reviews && step.Reviewer == "":
		return errors.New("the action review needs the option reviewer, as in: reviewer privacy-team")
	case step.Reviews && (len(step.Phases) != 1 || step.Phases[0] != inspect.Arguments):
		return errors.New("the action review is only possible for arguments: remove phases, and add another inspector for the other phases")
	case step.Reviewer != "" && !slices.Contains(step.Phases, inspect.Arguments):
		return errors.New("the option reviewer is only for arguments: add them to phases")
	}
	return nil
}
