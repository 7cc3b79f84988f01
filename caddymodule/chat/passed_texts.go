package chat

import (
	"crypto/sha256"
	"sync"
)

// maxPassed is the number of texts in each of the two generations.
const maxPassed = 1 << 15

// passedTexts remembers texts that have passed. If it forgets one, the guardrail checks that
// text again.
type passedTexts struct {
	mu         sync.Mutex
	young, old map[[sha256.Size]byte]struct{}
}

func (p *passedTexts) has(key [sha256.Size]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.young[key]; ok {
		return true
	}
	if _, ok := p.old[key]; !ok {
		return false
	}
	p.put(key)
	return true
}

func (p *passedTexts) add(key [sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(key)
}

func (p *passedTexts) put(key [sha256.Size]byte) {
	if len(p.young) >= maxPassed {
		p.old, p.young = p.young, nil
	}
	if p.young == nil {
		p.young = make(map[[sha256.Size]byte]struct{})
	}
	p.young[key] = struct{}{}
}
