package directive

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Guest parses a guest module. The current token of b is a subdirective whose first argument is the name of
// the module in the namespace. The rest of the line and the block belong to the module. The result is
// the JSON of the module, with its name in the member inlineKey.
func (b *Block) Guest(namespace, inlineKey string) (json.RawMessage, error) {
	d := b.NewFromNextSegment()
	d.Next()
	subdirective := d.Val()
	if !d.NextArg() {
		return nil, d.Errf("%s needs a module of %s; known are %s", subdirective, namespace, strings.Join(guestNames(namespace), ", "))
	}
	return GuestAt(d, subdirective, namespace, inlineKey)
}

// GuestAt is like Guest, but d is at the name of the module.
func GuestAt(d *caddyfile.Dispenser, subdirective, namespace, inlineKey string) (json.RawMessage, error) {
	name := d.Val()
	if _, err := caddy.GetModule(namespace + "." + name); err != nil || strings.Contains(name, ".") {
		if hint := notLinked(namespace, name, nil); hint != "" {
			return nil, d.Errf("%s: %s", subdirective, hint)
		}
		return nil, d.Errf("%s: unknown module %q of %s%s", subdirective, name, namespace, DidYouMean(name, guestNames(namespace)))
	}
	read, err := caddyfile.UnmarshalModule(d, namespace+"."+name)
	if err != nil {
		return nil, err
	}
	return caddyconfig.JSONModuleObject(read, inlineKey, name, nil), nil
}

// guestNames returns the names of the modules of a namespace in alphabetical order.
func guestNames(namespace string) []string {
	modules := caddy.GetModules(namespace)
	names := make([]string, 0, len(modules))
	for _, module := range modules {
		names = append(names, module.ID.Name())
	}
	slices.Sort(names)
	return names
}
