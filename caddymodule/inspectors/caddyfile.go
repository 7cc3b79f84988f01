package inspectors

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/webhook"
	"github.com/fairwayhq/fairway/tools/inspect"
)

// defaultTimeout is how long a webhook may take.
const defaultTimeout = 2 * time.Second

// action reads the action and log_only, which may follow the name of an inspector.
func (o *Options) action(d *caddyfile.Dispenser) error {
	d.Next()
	arguments := o.arguments(d)
	if len(arguments) == 0 {
		return nil
	}
	if o.Action = arguments[0]; !isAction(o.Action) {
		return d.Errf("inspect: unknown action %q; known are mask, reject and review, and log_only after them", o.Action)
	}
	if len(arguments) > 1 {
		return d.ArgErr()
	}
	return nil
}

// arguments returns the other arguments of the line, without log_only at the end.
func (o *Options) arguments(d *caddyfile.Dispenser) []string {
	arguments := d.RemainingArgs()
	if last := len(arguments) - 1; last >= 0 && arguments[last] == "log_only" {
		o.LogOnly, arguments = true, arguments[:last]
	}
	return arguments
}

// readPhases reads the option phases.
func (o *Options) readPhases(b *directive.Block) func() error {
	return func() error {
		var names []string
		if err := b.List(&names); err != nil {
			return err
		}
		for _, name := range names {
			o.Phases = append(o.Phases, inspect.Phase(name))
		}
		if _, err := o.phases(); err != nil {
			return b.WrapErr(err)
		}
		return nil
	}
}

// UnmarshalCaddyfile reads the inspector. Syntax:
//
//	inspect secrets [mask|reject|review] [log_only] {
//	    phases   <phases...>
//	    reviewer <name>
//	}
func (s *Secrets) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := s.action(d); err != nil {
		return err
	}
	b := directive.NewBlock(d)
	return b.Read("inspect secrets", directive.Options{"phases": s.readPhases(b), "reviewer": directive.To(b.Text, &s.Reviewer)})
}

// UnmarshalCaddyfile reads the inspector. Syntax:
//
//	inspect pii [mask|reject|review] [log_only] {
//	    phases   <phases...>
//	    reviewer <name>
//	    entities [email] [phone] [iban] [card] [ssn]
//	    pattern  <label> <expression>
//	}
func (p *PII) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := p.action(d); err != nil {
		return err
	}
	b := directive.NewBlock(d)
	return b.Read("inspect pii", directive.Options{
		"phases":   p.readPhases(b),
		"reviewer": directive.To(b.Text, &p.Reviewer),
		"entities": directive.To(b.List, &p.Entities),
		"pattern": func() error {
			var label, expression string
			if !b.AllArgs(&label, &expression) {
				return b.Err("pattern needs a label and an expression, as in: pattern customer-number `C-\\d{8}`")
			}
			if _, err := compile(label, expression); err != nil {
				return b.WrapErr(err)
			}
			if p.Patterns[label] != "" {
				return b.Errf("pattern %s is given twice", label)
			}
			if p.Patterns == nil {
				p.Patterns = make(map[string]string)
			}
			p.Patterns[label] = expression
			return nil
		},
	})
}

// read reads the options of a remote inspector, and those of the inspector itself.
func (r *Remote) read(d *caddyfile.Dispenser, name string, own func(*directive.Block) directive.Options) error {
	b := directive.NewBlock(d)
	options := own(b)
	options["phases"] = r.readPhases(b)
	options["reviewer"] = directive.To(b.Text, &r.Reviewer)
	options["timeout"] = directive.To(b.Period, &r.Timeout)
	options["on_error"] = func() error { return b.OneOf(&r.OnError, onErrorDeny, onErrorPass) }
	return b.Read("inspect "+name, options)
}

// connect returns the address and the timeout, with placeholders replaced.
func (r *Remote) connect(repl *caddy.Replacer) (address string, timeout time.Duration) {
	return repl.ReplaceAll(r.URL, ""), cmp.Or(time.Duration(r.Timeout), defaultTimeout)
}

// UnmarshalCaddyfile reads the inspector. Syntax:
//
//	inspect webhook <URL> [log_only] {
//	    secret   <secret>
//	    phases   <phases...>
//	    reviewer <name>
//	    timeout  <duration>
//	    on_error deny|pass
//	}
func (w *Webhook) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	arguments := w.arguments(d)
	if len(arguments) != 1 {
		return d.Err("inspect webhook needs a URL, as in: inspect webhook https://checks.internal/check")
	}
	w.URL = arguments[0]
	return w.read(d, "webhook", func(b *directive.Block) directive.Options {
		return directive.Options{"secret": directive.To(b.Text, &w.Secret)}
	})
}

// Provision implements caddy.Provisioner.
func (w *Webhook) Provision(caddy.Context) (err error) {
	repl := caddy.NewReplacer()
	address, timeout := w.connect(repl)
	w.client, err = webhook.New(address, repl.ReplaceAll(w.Secret, ""), timeout)
	return err
}

// UnmarshalCaddyfile reads the inspector. Syntax:
//
//	inspect presidio [mask|reject|review] <URL> [log_only] {
//	    phases    <phases...>
//	    reviewer  <name>
//	    language  <language>
//	    entities  <entity...>
//	    threshold <score>
//	    timeout   <duration>
//	    on_error  deny|pass
//	}
func (p *Presidio) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	arguments := p.arguments(d)
	if len(arguments) == 2 && isAction(arguments[0]) {
		p.Action, arguments = arguments[0], arguments[1:]
	}
	if len(arguments) != 1 {
		return d.Err("inspect presidio needs the URL of an analyzer, as in: inspect presidio mask http://presidio:5002")
	}
	p.URL = arguments[0]
	return p.read(d, "presidio", func(b *directive.Block) directive.Options {
		return directive.Options{
			"language":  directive.To(b.Text, &p.Language),
			"entities":  directive.To(b.List, &p.Entities),
			"threshold": func() error { return p.readThreshold(b) },
		}
	})
}

func (p *Presidio) readThreshold(b *directive.Block) (err error) {
	var score string
	if err := b.Text(&score); err != nil {
		return err
	}
	if p.Threshold, err = strconv.ParseFloat(score, 64); err != nil || !(p.Threshold >= 0 && p.Threshold <= 1) {
		return b.Errf("threshold %s: must be a number from 0 to 1", score)
	}
	return nil
}

// Provision implements caddy.Provisioner.
func (p *Presidio) Provision(caddy.Context) (err error) {
	address, timeout := p.connect(caddy.NewReplacer())
	p.client, err = webhook.NewUnsigned(strings.TrimSuffix(address, "/")+"/analyze", timeout, nil)
	return err
}

// UnmarshalCaddyfile reads the inspector. Syntax:
//
//	inspect moderation [reject|review] [log_only] {
//	    phases     <phases...>
//	    reviewer   <name>
//	    key        <key>
//	    url        <URL>
//	    model      <name>
//	    categories <category...>
//	    timeout    <duration>
//	    on_error   deny|pass
//	}
func (m *Moderation) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := m.action(d); err != nil {
		return err
	}
	return m.read(d, "moderation", func(b *directive.Block) directive.Options {
		return directive.Options{
			"key":        directive.To(b.Text, &m.Key),
			"url":        directive.To(b.Text, &m.URL),
			"model":      directive.To(b.Text, &m.Model),
			"categories": directive.To(b.List, &m.Categories),
		}
	})
}

// Provision implements caddy.Provisioner.
func (m *Moderation) Provision(caddy.Context) (err error) {
	repl := caddy.NewReplacer()
	address, timeout := m.connect(repl)
	key := repl.ReplaceAll(m.Key, "")
	m.client, err = webhook.NewUnsigned(cmp.Or(address, "https://api.openai.com/v1/moderations"), timeout, func(r *http.Request) error {
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		return nil
	})
	return err
}
