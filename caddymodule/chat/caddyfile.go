package chat

import "github.com/fairwayhq/fairway/caddymodule/directive"

// Options implements guard.Part.
func (p *part) Options(b *directive.Block) directive.Options {
	return directive.Options{"chat": func() error {
		p.Chat = new(Handler)
		return b.Single(p.Chat.unmarshalBlock)
	}}
}

// unmarshalBlock sets up the handler from the subdirective chat. Syntax:
//
//	chat [<paths...>] {
//		upstream    <url>
//		roles       user | system | developer | assistant | tool...
//		allow_media
//		max_input   <size>
//		max_output  <size>
//		keep_alive  <duration> | off
//	}
func (h *Handler) unmarshalBlock(outer *directive.Block) error {
	for _, p := range outer.RemainingArgs() {
		if err := checkPath(p); err != nil {
			return outer.Errf("chat %s: %v", p, err)
		}
		h.Paths = append(h.Paths, p)
	}
	b := directive.NewBlock(outer.Dispenser)
	return b.Read("chat", directive.Options{
		"upstream":    directive.To(b.Text, &h.Upstream),
		"roles":       func() error { return b.Each(&h.Roles, checkRole) },
		"allow_media": directive.To(b.Flag, &h.AllowMedia),
		"max_input":   directive.To(b.Size, &h.MaxInput),
		"max_output":  directive.To(b.Size, &h.MaxOutput),
		"keep_alive":  directive.To(b.Duration, &h.KeepAlive),
	})
}
