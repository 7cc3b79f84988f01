package inspect

import (
	"encoding/json"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/webhook"
	"github.com/fairwayhq/fairway/tools/inspect"
)

// defaultTimeout is how long a webhook may take.
const defaultTimeout = 2 * time.Second

// Read parses the subdirective inspect at the current token of b and adds the inspector. Syntax:
//
//	inspect <module> ...
//
// where the rest depends on the module agents.inspectors.<module>.
func Read(b *directive.Block, to *[]json.RawMessage) error {
	raw, err := b.Guest(Namespace, InlineKey)
	if err != nil {
		return err
	}
	*to = append(*to, raw)
	return nil
}

// action reads the action that may follow the name of an inspector.
func (o *Options) action(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.NextArg() {
		return nil
	}
	if o.Action = d.Val(); o.Action != actionMask && o.Action != actionReject {
		return d.Errf("inspect: unknown action %q; known are mask and reject", o.Action)
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
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
//	inspect secrets [mask|reject] {
//	    phases [arguments] [result] [error] [list]
//	}
func (s *Secrets) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if err := s.action(d); err != nil {
		return err
	}
	b := directive.NewBlock(d)
	return b.Read("inspect secrets", directive.Options{"phases": s.readPhases(b)})
}

// UnmarshalCaddyfile reads the inspector. Syntax:
//
//	inspect pii [mask|reject] {
//	    phases   [arguments] [result] [error] [list]
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

// UnmarshalCaddyfile reads the inspector. Syntax:
//
//	inspect webhook <URL> {
//	    secret   <secret>
//	    phases   [arguments] [result] [error]
//	    timeout  <duration>
//	    on_error deny|pass
//	}
func (w *Webhook) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.AllArgs(&w.URL) {
		return d.Err("inspect webhook needs a URL, as in: inspect webhook https://checks.internal/check")
	}
	b := directive.NewBlock(d)
	return b.Read("inspect webhook", directive.Options{
		"secret":   directive.To(b.Text, &w.Secret),
		"phases":   w.readPhases(b),
		"timeout":  directive.To(b.Period, &w.Timeout),
		"on_error": func() error { return b.OneOf(&w.OnError, onErrorDeny, onErrorPass) },
	})
}

// Provision implements caddy.Provisioner.
func (w *Webhook) Provision(caddy.Context) (err error) {
	repl, timeout := caddy.NewReplacer(), time.Duration(w.Timeout)
	if timeout == 0 {
		timeout = defaultTimeout
	}
	w.client, err = webhook.New(repl.ReplaceAll(w.URL, ""), repl.ReplaceAll(w.Secret, ""), timeout)
	return err
}
