package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// ErrPrivateAddress reports a host whose address is not public.
var ErrPrivateAddress = errors.New("the address of the server is not public")

// OnlyPublic rejects a connection to an address that is not public. It is for
// net.Dialer.ControlContext, which calls it for each address after the host name was resolved.
func OnlyPublic(_ context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !isPublic(to.Addr()) {
		return fmt.Errorf("%w: %s %s", ErrPrivateAddress, network, address)
	}
	return nil
}

// isPublic reports whether an address is a global unicast address that no registry reserves for
// another purpose (IANA special-purpose address registries, RFC 6890).
func isPublic(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, block := range reserved {
		if block.Contains(a) {
			return false
		}
	}
	return a.Is4() || unicast6.Contains(a)
}

// unicast6 is the only block of IPv6 that is assigned for global unicast.
var unicast6 = netip.MustParsePrefix("2000::/3")

// reserved are the blocks that the methods of netip.Addr do not cover.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // shared address space of providers
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // future use, and broadcast
	netip.MustParsePrefix("2001::/23"),       // protocol assignments, with Teredo: contains IPv4 addresses
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // 6to4: contains IPv4 addresses
	netip.MustParsePrefix("3fff::/20"),       // documentation
}
