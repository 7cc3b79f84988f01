package models

import (
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	openai {
//		base_url     <url>
//		api_key      <key>
//		model        <name>
//		timeout      <duration>
//		max_tokens   <number>
//		max_response <size>
//		retries      <number>
//	}
func (m *OpenAI) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return m.unmarshal(d)
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	anthropic {
//		base_url     <url>
//		api_key      <key>
//		model        <name>
//		timeout      <duration>
//		max_tokens   <number>
//		max_response <size>
//		retries      <number>
//	}
func (m *Anthropic) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return m.unmarshal(d)
}

func (a *API) unmarshal(d *caddyfile.Dispenser) error {
	d.Next() // consume the name of the provider
	provider := d.Val()
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	if err := b.Options(a.unmarshalOption); err != nil {
		return err
	}
	if a.Model == "" {
		return b.Errf("%s needs the name of a model: add the option model", provider)
	}
	return nil
}

func (a *API) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "base_url":
		return b.Value(func(text string) error {
			a.BaseURL = text
			return directive.UnlessPlaceholder(text, model.CheckBaseURL(text))
		})
	case "api_key":
		return b.Text(&a.APIKey)
	case "model":
		return b.Text(&a.Model)
	case "timeout":
		return b.Period(&a.Timeout)
	case "max_tokens":
		return b.Positive(&a.MaxTokens)
	case "max_response":
		return b.Size(&a.MaxResponse)
	case "retries":
		a.Retries = new(int)
		if err := b.Count(a.Retries); err != nil {
			return err
		}
		if *a.Retries > maxRetries {
			return b.WrapErr(fmt.Errorf("retries %d is more than %d", *a.Retries, maxRetries))
		}
		return nil
	}
	return b.Unrecognized("model")
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. Syntax:
//
//	scripted {
//		file <file>
//	}
func (s *Scripted) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume the name of the provider
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		if b.Val() != "file" {
			return b.Unrecognized("model scripted")
		}
		if err := b.Text(&s.File); err != nil {
			return err
		}
	}
	if s.File == "" {
		return b.Err("scripted needs the file of its script, as in: file script.yaml")
	}
	return nil
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*OpenAI)(nil)
	_ caddyfile.Unmarshaler = (*Anthropic)(nil)
	_ caddyfile.Unmarshaler = (*Scripted)(nil)
)
