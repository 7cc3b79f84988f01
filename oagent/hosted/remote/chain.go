package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// chainHeader has the Chain of a request that starts an Engagement.
const chainHeader = "Oagent-Chain"

// maxChain is the maximum number of agents that call each other.
const maxChain = 8

// maxChainHeader is the maximum size of the header, in bytes.
const maxChainHeader = 4 << 10

// digestSize is the length of an entry, in bytes.
const digestSize = 12

var (
	// ErrCycle reports a call of an agent that waits for the caller.
	ErrCycle = errors.New("the agent is already part of this chain of calls")
	// ErrMalformedChain reports an invalid chainHeader.
	ErrMalformedChain = fmt.Errorf("the header %s is malformed: each entry must have %d lowercase hexadecimal digits", chainHeader, 2*digestSize)
	// ErrTooDeep reports a chain with more than maxChain agents.
	ErrTooDeep = fmt.Errorf("agents that call agents are nested deeper than %d levels", maxChain)
)

// Chain identifies the agents that wait for a call: the agent that the user called first, the
// agent that this one called, and so on. Each server adds its own agent and sends the chain on. An
// entry is a digest of the agent's address, so that a server does not learn who the others are.
//
// A server that does not send the header on breaks the chain. Then only the limits of each
// Engagement end a cycle.
type Chain []string

// ReadChain returns the chain of a request. The error is ErrTooDeep or ErrMalformedChain.
func ReadChain(header http.Header) (Chain, error) {
	text := strings.Join(header.Values(chainHeader), ",")
	if text == "" {
		return nil, nil
	}
	if len(text) > maxChainHeader {
		return nil, ErrTooDeep
	}
	chain := Chain(strings.Split(text, ","))
	for i := range chain {
		chain[i] = strings.TrimSpace(chain[i])
		if sum, err := hex.DecodeString(chain[i]); err != nil || len(sum) != digestSize || chain[i] != strings.ToLower(chain[i]) {
			return nil, ErrMalformedChain
		}
	}
	if len(chain) > maxChain {
		return nil, ErrTooDeep
	}
	return chain, nil
}

// Enter returns the chain with one more agent. host is that of its URL, and path contains its
// name. The error is ErrCycle or ErrTooDeep.
func (c Chain) Enter(host, path string) (Chain, error) {
	own := digest(host, path)
	if slices.Contains(c, own) {
		return nil, ErrCycle
	}
	if len(c) >= maxChain {
		return nil, ErrTooDeep
	}
	return append(slices.Clip(c), own), nil
}

// String returns the chain as the value of chainHeader.
func (c Chain) String() string { return strings.Join(c, ", ") }

func digest(host, path string) string {
	sum := sha256.Sum256([]byte(withoutPort(strings.ToLower(host)) + "/" + strings.Trim(path, "/")))
	return hex.EncodeToString(sum[:digestSize])
}
