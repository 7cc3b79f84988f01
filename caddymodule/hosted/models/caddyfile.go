package models

import (
	"errors"
	"maps"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
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
//		max_tokens | max_completion_tokens <number>
//		max_response <size>
//		temperature  <number>
//		effort       <word>
//		header_up    <header> <value>
//		credential   header | query <name> <value>
//		retries      <number>
//		max_fails    <number>
//		fail_duration <duration>
//		fallback     <provider> { ... }
//	}
//
// header_up and credential may be repeated.
func (m *OpenAI) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return m.unmarshal(d, func(b *directive.Block) directive.Options {
		return directive.Options{"max_completion_tokens": directive.To(b.Positive, &m.MaxCompletionTokens)}
	})
}

// UnmarshalCaddyfile sets up the module from Caddyfile tokens. The syntax is that of anthropic:
//
//	openai_responses { ... }
func (m *Responses) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return m.unmarshal(d, func(*directive.Block) directive.Options { return nil })
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
//		temperature  <number>
//		effort       <word>
//		header_up    <header> <value>
//		credential   header | query <name> <value>
//		retries      <number>
//		max_fails    <number>
//		fail_duration <duration>
//		fallback     <provider> { ... }
//	}
//
// header_up and credential may be repeated.
func (m *Anthropic) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return m.unmarshal(d, func(*directive.Block) directive.Options { return nil })
}

// unmarshal reads the options of all APIs, and those of one.
func (a *API) unmarshal(d *caddyfile.Dispenser, own func(*directive.Block) directive.Options) error {
	d.Next() // consume the name of the provider
	provider := d.Val()
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	options := directive.Options{
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
		"max_fails":     directive.To(b.Positive, &a.MaxFails),
		"fail_duration": directive.To(b.Period, &a.FailDuration),
		"fallback": func() (err error) {
			if err = b.Once(); err == nil {
				a.FallbackRaw, err = b.Guest("oagent.models", "name")
			}
			return err
		},
		"header_up":  func() error { return credential.ReadHeader(b, "header_up", &a.Credentials) },
		"credential": func() error { return credential.Read(b, &a.Credentials) },
		"temperature": func() error {
			return b.Value(func(text string) (err error) {
				a.Temperature = new(float64)
				*a.Temperature, err = strconv.ParseFloat(text, 64)
				return errors.Join(err, checkTemperature(a.Temperature))
			})
		},
		"effort": directive.To(b.Text, &a.Effort),
	}
	maps.Copy(options, own(b))
	if err := b.Read("model", options); err != nil {
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
	_ caddyfile.Unmarshaler = (*Responses)(nil)
	_ caddyfile.Unmarshaler = (*Anthropic)(nil)
	_ caddyfile.Unmarshaler = (*Scripted)(nil)
)
