package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"golang.org/x/net/http/httpguts"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// Read parses the subdirective credential at the current token of b and adds the credential. Errors do not
// contain its value. Syntax:
//
//	credential <module> ...
//
// where the rest depends on the module agents.credentials.<module>.
func Read(b *directive.Block, to *[]json.RawMessage) error {
	if b.CountRemainingArgs() == 0 {
		return b.WrapErr(errNotGiven)
	}
	b.NextArg()
	name := b.Val()
	if !httpguts.ValidHeaderFieldName(name) { // it may have the value
		return b.WrapErr(errNotGiven)
	}
	if name != strings.ToLower(name) {
		return b.Errf("credential %[1]s: say first where the value is sent, as in: credential header %[1]s \"Bearer {env.API_TOKEN}\"", name)
	}
	b.Prev()
	raw, err := b.Guest(Namespace, inlineKey)
	if err != nil {
		return err
	}
	return add(b, to, raw)
}

// ReadHeader parses a header that is a credential. subdirective is its name in errors. Errors do not
// contain the value.
func ReadHeader(b *directive.Block, subdirective string, to *[]json.RawMessage) error {
	c := new(Header)
	if !b.AllArgs(&c.Name, &c.Value) {
		return b.Errf("%[1]s needs a header and its value, as in: %[1]s Authorization \"Bearer {env.OPS_TOKEN}\"", subdirective)
	}
	c.Name = http.CanonicalHeaderKey(c.Name)
	if err := c.check(); err != nil {
		return b.WrapErr(err)
	}
	return add(b, to, caddyconfig.JSONModuleObject(c, inlineKey, "header", nil))
}

// HeaderLine reads a credential of the form "Name: value".
func HeaderLine(line string) (Module, error) {
	name, value, found := strings.Cut(line, ":")
	if !found {
		return nil, errors.New(`write it as "Name: value"`)
	}
	c := &Header{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
	return c, c.Provision(caddy.Context{})
}

// add adds a credential, unless there is one for its location.
func add(b *directive.Block, to *[]json.RawMessage, raw json.RawMessage) error {
	at, err := locate(raw)
	if err != nil {
		return b.WrapErr(err)
	}
	for _, other := range *to {
		if taken, err := locate(other); err == nil && taken == at {
			return b.Errf("credential for %s is given twice", at)
		}
	}
	*to = append(*to, raw)
	return nil
}

// locate returns the location of a credential that is not provisioned.
func locate(raw json.RawMessage) (Location, error) {
	var named struct {
		In string `json:"in"`
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return Location{}, err
	}
	info, err := caddy.GetModule(Namespace + "." + named.In)
	if err != nil {
		return Location{}, err
	}
	module, ok := info.New().(Module)
	if !ok {
		return Location{}, fmt.Errorf("the module %s is not a credential", info.ID)
	}
	if err := json.Unmarshal(raw, module); err != nil {
		return Location{}, err
	}
	return module.Location(), nil
}
