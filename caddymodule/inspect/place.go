package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/tools/inspect"
)

// Place is where inspectors are configured. It determines their phases.
type Place string

// The places.
const (
	OfToolset Place = "toolset"
	OfModel   Place = "model" // of hosted agents: the phases are request and response
)

func (p Place) has(phase inspect.Phase) bool {
	return (phase == inspect.Request || phase == inspect.Response) == (p == OfModel)
}

// restrict leaves a step the phases of the place. It returns an error if the configuration of the inspector names others. An
// inspector of results that names none also inspects resources, prompts, and what models get and generate.
func (p Place) restrict(step *inspect.Step, config json.RawMessage) error {
	var given struct {
		Phases []inspect.Phase `json:"phases"`
	}
	if err := json.Unmarshal(config, &given); err != nil {
		return err
	}
	known := slices.DeleteFunc(slices.Clone(inspect.Phases[:]), func(phase inspect.Phase) bool { return !p.has(phase) })
	for _, phase := range given.Phases {
		if !p.has(phase) {
			return fmt.Errorf("a %s has no phase %s; it has %s", p, phase, known)
		}
	}
	phases := slices.Clone(step.Phases)
	if len(given.Phases) == 0 && slices.Contains(phases, inspect.Result) {
		phases = append(phases, inspect.Resources, inspect.Prompts, inspect.Request, inspect.Response)
	}
	step.Phases = slices.DeleteFunc(phases, func(phase inspect.Phase) bool { return !p.has(phase) })
	if len(step.Phases) == 0 {
		return fmt.Errorf("the inspector has no phase of a %s: add phases, of %s", p, known)
	}
	return nil
}

// restrictLogOnly removes the phase list from a step in log only: it reports about calls. It returns an error if there is nothing to report.
func (p Place) restrictLogOnly(step *inspect.Step) error {
	if !step.LogOnly {
		return nil
	}
	step.Phases = slices.DeleteFunc(step.Phases, func(phase inspect.Phase) bool { return phase == inspect.List })
	if p != OfToolset || len(step.Phases) == 0 {
		return errors.New("it reports what an inspector would do to the calls of a toolset, and this one has no phase of a call")
	}
	return nil
}
