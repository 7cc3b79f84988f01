package chat

import "github.com/fairwayhq/fairway/caddymodule/directive"

// UnmarshalBlock sets up the handler from the subdirective chat. Syntax:
//
//	chat [<paths...>] {
//		upstream    <url>
//		roles       user | system | developer | assistant | tool...
//		allow_media
//		max_input   <size>
//		max_output  <size>
//		keep_alive  <duration> | off
//	}
func (h *Handler) UnmarshalBlock(outer *directive.Block) error {
	for _, p := range outer.RemainingArgs() {
		if err := checkPath(p); err != nil {
			return outer.Errf("chat %s: %v", p, err)
		}
		h.Paths = append(h.Paths, p)
	}
	b := directive.NewBlock(outer.Dispenser)
	return b.Options(h.unmarshalOption)
}

func (h *Handler) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "upstream":
		return b.Text(&h.Upstream)
	case "roles":
		return b.Each(&h.Roles, checkRole)
	case "allow_media":
		if b.NextArg() {
			return b.ArgErr()
		}
		h.AllowMedia = true
		return nil
	case "max_input":
		return b.Size(&h.MaxInput)
	case "max_output":
		return b.Size(&h.MaxOutput)
	case "keep_alive":
		return b.Duration(&h.KeepAlive)
	}
	return b.Unrecognized("chat")
}
