package events

import (
	"reflect"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/events/signature"
)

// schemeHMAC is the name of a scheme of an HMAC in the Caddyfile.
const schemeHMAC = "hmac"

// UnmarshalCaddyfile sets up the handler. Syntax:
//
//	agent_events <path> <toolset> {
//		verify <preset> | hmac | ed25519 <secret> [<previous secret>] { … }
//		public_url <URL>
//		for        <expression>
//		event <type> {
//			schema   <file>
//			rename   <name>
//			describe <text>
//			hide
//			select   <jq>
//		}
//		on <event> start <agent>
//		invalid   store | refuse
//		max_body  <size>
//		retention <duration>
//		max_size  <size>
//	}
//
// The block of verify is for hmac and ed25519: see readScheme. event and on may be repeated.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // consume directive name
	if !d.Args(&h.Path, &h.Toolset) {
		return d.Err("agent_events needs a path and a toolset, as in: agent_events /hooks/shop shop")
	}
	if d.NextArg() {
		return d.ArgErr()
	}
	b := directive.NewBlock(d)
	return b.Read("agent_events", directive.Options{
		"verify":     func() error { return b.Single(h.readVerify) },
		"public_url": directive.To(b.Text, &h.PublicURL),
		"for":        func() error { return h.readFor(b) },
		"event":      func() error { return h.readEvent(b) },
		"on":         func() error { return h.readStart(b) },
		"invalid":    func() error { return b.OneOf(&h.Invalid, invalidStore, invalidRefuse) },
		"max_body":   directive.To(b.Size, &h.MaxBody),
		"retention":  directive.To(b.Period, &h.Retention),
		"max_size":   directive.To(b.Size, &h.MaxSize),
	})
}

// readFor reads the expression. The Caddyfile removes quotation marks, so the whole expression must be quoted.
func (h *Handler) readFor(b *directive.Block) error {
	if b.CountRemainingArgs() != 1 {
		return b.Err("for takes one expression in backticks, as in: for `event.customer == user.id`")
	}
	return b.Value(func(text string) error {
		h.For = text
		_, err := compileAudience(text)
		return err
	})
}

// readVerify reads how requests are verified. The options of hmac and ed25519 are:
//
//	algorithm     hmac-sha256 | hmac-sha1
//	header        <name>
//	separator     <text>
//	prefix        <text>
//	coding        hex | base64
//	signed        <template>
//	timestamp     <header, or text before it in the header of the signature>
//	unit          s | ms
//	tolerance     <seconds>
//	id            <header or JSON pointer>
//	type          <headers or JSON pointers...>
//	secret_coding text | hex | base64 | whsec
func (h *Handler) readVerify(b *directive.Block) error {
	var name string
	v := new(Verification)
	arguments := b.RemainingArgs()
	if len(arguments) < 2 || len(arguments) > 3 {
		return b.Err("verify takes a preset, the secret and, while it is being replaced, the one before, as in: verify stripe {env.SHOP_HOOK_SECRET}")
	}
	name, v.Secret = arguments[0], arguments[1]
	if len(arguments) == 3 {
		v.PreviousSecret = arguments[2]
	}
	for _, secret := range arguments[1:] {
		if err := directive.CheckVariable(secret); err != nil {
			return b.WrapErr(err)
		}
	}
	h.Verify = v
	if name != schemeHMAC && name != signature.Ed25519 {
		v.Preset = name
		if _, err := v.scheme(); err != nil {
			return b.WrapErr(err)
		}
		return directive.NewBlock(b.Dispenser).Read("verify "+name, nil)
	}
	s := new(signature.Scheme)
	v.Scheme = s
	inner := directive.NewBlock(b.Dispenser)
	options := directive.Options{
		"header": directive.To(inner.Text, &s.Header), "separator": directive.To(inner.Text, &s.Separator), "prefix": directive.To(inner.Text, &s.Prefix),
		"coding": directive.To(inner.Text, &s.Coding), "signed": directive.To(inner.Text, &s.Signed),
		"timestamp": directive.To(inner.Text, &s.Timestamp), "unit": directive.To(inner.Text, &s.Unit), "tolerance": directive.To(inner.Positive, &s.Tolerance),
		"id": directive.To(inner.Text, &s.ID), "type": directive.To(inner.List, &s.Type), "secret_coding": directive.To(inner.Text, &s.SecretCoding),
	}
	if name == signature.Ed25519 {
		s.Algorithm = name
	} else {
		options["algorithm"] = directive.To(inner.Text, &s.Algorithm)
	}
	return inner.Read("verify "+name, options)
}

func (h *Handler) readEvent(outer *directive.Block) error {
	var name string
	if !outer.AllArgs(&name) {
		return outer.Err("event needs the type that the API sends, as in: event invoice.paid {")
	}
	if h.Events[name] != nil {
		return outer.Errf("event %s is given twice; merge the blocks", name)
	}
	e := new(Event)
	b := directive.NewBlock(outer.Dispenser)
	if err := b.Read("event", directive.Options{
		"schema": directive.To(b.Text, &e.Schema), "rename": directive.To(b.Text, &e.Rename), "describe": directive.To(b.Text, &e.Description),
		"hide": directive.To(b.Flag, &e.Hide), "select": directive.To(b.Text, &e.Select),
	}); err != nil {
		return err
	}
	if reflect.DeepEqual(e, new(Event)) {
		return outer.Errf("event %s changes nothing; add a block with schema, rename, describe, hide or select", name)
	}
	if h.Events == nil {
		h.Events = make(map[string]*Event)
	}
	h.Events[name] = e
	return nil
}

func (h *Handler) readStart(b *directive.Block) error {
	arguments := b.RemainingArgs()
	if len(arguments) != 3 || arguments[1] != "start" {
		return b.Err("on takes an event, start and a hosted agent, as in: on invoice.paid start bookkeeper")
	}
	if h.Starts[arguments[0]] != "" {
		return b.Errf("on %s is given twice", arguments[0])
	}
	if h.Starts == nil {
		h.Starts = make(map[string]string)
	}
	h.Starts[arguments[0]] = arguments[2]
	return nil
}
