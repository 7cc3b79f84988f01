package remoteagents

import (
	"github.com/fairwayhq/fairway/caddymodule/agents/credential"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/oagent/remote"
)

// UnmarshalBlock parses the subdirective remote_agents at the current token. Syntax:
//
//	remote_agents <hosts...> {
//		header_up  <header> <value>
//		credential header | query <name> <value>
//		credential basic <user> <password>
//		forward_caller
//		allow_private_addresses
//		trusted_ca <files...>
//		timeout    <duration>
//	}
//
// where header_up, which is credential header, credential and trusted_ca may be repeated.
func UnmarshalBlock(outer *directive.Block) (*Servers, error) {
	s := &Servers{Hosts: outer.RemainingArgs()}
	if len(s.Hosts) == 0 {
		return nil, outer.Err("remote_agents needs the servers whose agents may be called, as in: remote_agents agents.example.com")
	}
	for _, host := range s.Hosts {
		if _, err := remote.NormalizeHost(host); err != nil {
			return nil, outer.WrapErr(err)
		}
	}
	b := directive.NewBlock(outer.Dispenser)
	if err := b.Options(s.unmarshalOption); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Servers) unmarshalOption(b *directive.Block) error {
	switch b.Val() {
	case "header_up":
		return credential.ReadHeader(b, "header_up", &s.Credentials)
	case "credential":
		return credential.Read(b, &s.Credentials)
	case "forward_caller":
		return b.Flag(&s.ForwardCaller)
	case "allow_private_addresses":
		return b.Flag(&s.AllowPrivateAddresses)
	case "trusted_ca":
		return b.List(&s.TrustedCA)
	case "timeout":
		return b.Period(&s.Timeout)
	}
	return b.Unrecognized("remote_agents")
}
