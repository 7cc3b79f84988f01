package models

import (
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
	err := b.Read("model", directive.Options{
		"base_url": func() error {
			return b.Value(func(text string) error {
				a.BaseURL = text
				return directive.UnlessPlaceholder(text, model.CheckBaseURL(text))
			})
		},
		"api_key":      directive.To(b.Text, &a.APIKey),
		"model":        directive.To(b.Text, &a.Model),
		"timeout":      directive.To(b.Period, &a.Timeout),
		"max_tokens":   directive.To(b.Positive, &a.MaxTokens),
		"max_response": directive.To(b.Size, &a.MaxResponse),
		"retries": func() error {
			a.Retries = new(int)
			if err := b.Count(a.Retries); err != nil || *a.Retries <= maxRetries {
				return err
			}
			return b.Errf("retries %d is more than %d", *a.Retries, maxRetries)
		},
	})
	if err != nil {
		return err
	}
	if a.Model == "" {
		return b.Errf("%s needs the name of a model: add the option model", provider)
	}
	return nil
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
	if err := b.Read("model scripted", directive.Options{"file": directive.To(b.Text, &s.File)}); err != nil {
		return err
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
