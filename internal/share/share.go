// Package share divides a bounded resource among the callers that use it, so that no caller can take
// another's place.
//
// A Bound counts the units of a resource that are in use (records, bytes, streams, runs …) and who uses
// them: the Owner. An owner is an authenticated user, or the network of an unauthenticated caller.
//
// While at most three quarters of the limit are in use, an owner may take any number of units: a site with
// one API key can use most of the resource. Above that, shares bind:
//
//   - An owner may hold at most an eighth of the units that are free afterwards. An owner that has much is
//     refused first, and there is room for an owner that has little.
//   - An owner that holds nothing may take one unit as long as one is free.
//   - Unauthenticated networks may use the last eighth of the limit only while together they hold at most an
//     eighth. So a user finds room, however many networks there are.
//
// docs/limits.md lists all Bounds and other bounded resources (Slots) by name, and says who owns their units.
//
// Resources that can be dropped (cached responses, pages) are not refused. Their holder drops those of the
// owner that Yields returns, the oldest first.
package share

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
)

const (
	// Shares bind while more than bindAbove percent of a limit are in use.
	bindAbove = 75

	// freeParts is the part of the free units that an owner may hold while shares bind: one eighth.
	freeParts = 8

	// Options.Warn is called when the use rises above warnAbove percent, and again only after it has
	// fallen to bindAbove percent.
	warnAbove = 80
)

// Options configure a Bound.
type Options struct {
	// Name is what is counted, in the plural, for errors and logs: "open streams".
	Name string

	// Limit is the maximum number of units in use.
	Limit int64

	// Warn is called when the use rises above 80 % of the limit. It must not block. Default: no warning.
	Warn func(Usage)
}

// A Bound counts the units of a resource by owner. It is safe for concurrent use.
type Bound struct {
	options Options

	mu       sync.Mutex
	used     int64
	networks int64 // units of all unauthenticated networks
	owners   map[Owner]int64
	warned   bool
	freed    chan struct{} // closed when units are returned; nil if no caller waits, see Await
}

// NewBound returns a Bound of which nothing is in use.
func NewBound(options Options) *Bound {
	return &Bound{options: options, owners: make(map[Owner]int64)}
}

// A FullError reports that units were not taken.
type FullError struct {
	Name  string // Options.Name
	Owner Owner  // who asked
	Share bool   // the owner has used its share; there is room for others

	networks bool // the unauthenticated networks have used their part
}

func (e *FullError) Error() string {
	if e.Share {
		return fmt.Sprintf("%s: the share of %s is used up", e.Name, e.Owner)
	}
	return e.Name + ": the limit is reached"
}

// Take takes n units for the owner, who must return them with Give. If n is not positive, it returns units.
// The error is a *FullError.
func (b *Bound) Take(o Owner, n int64) error {
	return b.take(o, n, n > 0)
}

// Give returns n units of the owner. If n is negative, it takes units without a check.
func (b *Bound) Give(o Owner, n int64) {
	_ = b.take(o, -n, false)
}

func (b *Bound) take(o Owner, n int64, check bool) error {
	if n == 0 {
		return nil
	}
	b.mu.Lock()
	if check {
		if full := b.check(o, n); full != nil {
			b.mu.Unlock()
			return full
		}
	}
	warn := b.add(o, n)
	if n < 0 && b.freed != nil {
		close(b.freed)
		b.freed = nil
	}
	var usage Usage
	if warn {
		usage = b.usage()
	}
	b.mu.Unlock()
	if warn {
		b.options.Warn(usage)
	}
	return nil
}

// Check returns the error that Take would return, and takes nothing.
func (b *Bound) Check(o Owner, n int64) error {
	if n <= 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if full := b.check(o, n); full != nil {
		return full
	}
	return nil
}

// check returns why the owner may not take n units. The caller must hold b.mu.
func (b *Bound) check(o Owner, n int64) *FullError {
	limit, used, own := b.options.Limit, b.used+n, b.owners[o]+n
	over := o != Gateway && own > n && own > (limit-used)/freeParts
	switch {
	case used > limit:
		// A caller above its share is the reason, also if there is no room for anyone.
		return &FullError{Name: b.options.Name, Owner: o, Share: over}
	case o == Gateway, used <= limit/100*bindAbove+limit%100*bindAbove/100:
		return nil
	case over:
		return &FullError{Name: b.options.Name, Owner: o, Share: true}
	case o.IsNetwork() && b.networks+n > max(limit/freeParts, 1) && used > limit-max(limit/freeParts, 1):
		// The part before the last eighth is for networks, too: otherwise one of them that holds three
		// quarters would lock out all others.
		return &FullError{Name: b.options.Name, Owner: o, Share: true, networks: true}
	}
	return nil
}

// add changes the number of units of the owner, and reports whether Warn is due. The caller must hold b.mu.
func (b *Bound) add(o Owner, n int64) (warn bool) {
	b.used += n
	if o.IsNetwork() {
		b.networks += n
	}
	if own := b.owners[o] + n; own > 0 {
		b.owners[o] = own
	} else {
		delete(b.owners, o)
	}
	percent := b.used * 100
	switch {
	case percent <= b.options.Limit*bindAbove:
		b.warned = false
	case percent > b.options.Limit*warnAbove && !b.warned:
		b.warned = true
		return b.options.Warn != nil
	}
	return false
}

// Usage is how much of a resource is in use, and by whom most.
type Usage struct {
	Name        string
	Used, Limit int64
	Largest     Owner // "" if only the gateway uses the resource
	LargestUsed int64
}

// Usage returns the current use. It takes time in proportion to the number of owners.
func (b *Bound) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usage()
}

func (b *Bound) usage() Usage {
	u := Usage{Name: b.options.Name, Used: b.used, Limit: b.options.Limit}
	u.Largest, u.LargestUsed = b.largest(func(o Owner) bool { return o != Gateway })
	return u
}

// Yields returns the owner whose units must be dropped next after Take has returned the error: of those of
// which canYield returns true, the one that uses most. An owner that has used its share yields itself, unless
// another uses more. If unauthenticated networks use more than half of the limit, they yield first. The gateway
// yields last. If found is false, nothing may be dropped. Yields takes time in proportion to the number of owners.
func (b *Bound) Yields(full *FullError, canYield func(Owner) bool) (o Owner, found bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.owners[full.Owner]
	if full.networks || b.networks > b.options.Limit/2 {
		o, most := b.largest(func(o Owner) bool { return o.IsNetwork() && canYield(o) })
		if found = most > 0 && (most >= own || !full.Owner.IsNetwork()); found || full.networks {
			return o, found
		}
	}
	o, most := b.largest(func(o Owner) bool { return o != Gateway && canYield(o) })
	if full.Share {
		return o, most > 0 && most >= own
	}
	return o, most > 0 || canYield(Gateway)
}

// largest returns the owner with the most units among some, and of several the first by name. The caller must
// hold b.mu.
func (b *Bound) largest(among func(Owner) bool) (found Owner, most int64) {
	for o, n := range b.owners {
		if (n > most || n == most && o < found) && among(o) {
			found, most = o, n
		}
	}
	return found, most
}

// An Owner identifies who uses a part of a resource. It is a text that can be stored and logged:
//
//	user ada
//	network 203.0.113.7/32
//	network 2001:db8:1:2::/64
type Owner string

// Gateway owns what the gateway uses for itself. Only the limit of a Bound applies to it.
const Gateway Owner = ""

const (
	userPrefix    = "user "
	networkPrefix = "network "

	// maxUser is the maximum length of a user id in an Owner, in bytes. Ids that are longer and have an
	// equal beginning share one Owner.
	maxUser = 200

	// ipv6Network is the length of the IPv6 prefix that counts as one network: providers assign at least a
	// /64 to each customer, who chooses the other bits.
	ipv6Network = 64
)

// OwnerOf returns the owner for a caller: the authenticated user, or, if user is empty, the network of the
// IP address. The network is the address itself for IPv4, and its /64 for IPv6. An address that cannot be
// parsed is a network of its own.
func OwnerOf(user, address string) Owner {
	if user != "" {
		return Owner(userPrefix + user[:min(len(user), maxUser)])
	}
	parsed, err := netip.ParseAddr(address)
	if err != nil {
		return Owner(networkPrefix + address[:min(len(address), maxUser)])
	}
	parsed = parsed.Unmap().WithZone("")
	bits := parsed.BitLen()
	if parsed.Is6() {
		bits = ipv6Network
	}
	return Owner(networkPrefix + netip.PrefixFrom(parsed, bits).Masked().String())
}

// IsNetwork reports whether the owner is the network of unauthenticated callers.
func (o Owner) IsNetwork() bool { return strings.HasPrefix(string(o), networkPrefix) }
