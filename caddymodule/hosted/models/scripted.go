package models

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/buffer"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// Scripted plays a script in place of a model. It says in each answer that it is scripted.
type Scripted struct {
	// The YAML file of the script, which is read when the configuration is loaded. Placeholders
	// that do not depend on a request are allowed. Required.
	File string `json:"file,omitempty"`

	generator model.Model
}

// CaddyModule returns the Caddy module information.
func (Scripted) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "oagent.models.scripted", New: func() caddy.Module { return new(Scripted) }}
}

// Provision sets up the module.
func (s *Scripted) Provision(ctx caddy.Context) error {
	if err := processMetrics.register(ctx.GetMetricsRegistry()); err != nil {
		return err
	}
	name, err := caddy.NewReplacer().ReplaceOrErr(s.File, true, true)
	if err != nil {
		return fmt.Errorf("file: %w", err)
	}
	if name == "" {
		return errors.New("the scripted model needs the file of its script")
	}
	script, err := buffer.ReadFile(name, model.MaxScript)
	if err != nil {
		return err
	}
	m, err := model.NewScripted(script)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	ctx.Logger().Warn("agents use a scripted model: no answer comes from a real model")
	s.generator = processMetrics.measure(m, "scripted", "scripted")
	return nil
}

// Generate implements model.Model.
func (s *Scripted) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	return s.generator.Generate(ctx, request, onText)
}

// Interface guards
var (
	_ caddy.Provisioner = (*Scripted)(nil)
	_ model.Model       = (*Scripted)(nil)
)
