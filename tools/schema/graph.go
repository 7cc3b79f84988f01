package schema

import "slices"

// A visit is the state of Tarjan's algorithm for one component.
type visit struct {
	number int32 // 0: not visited
	low    int32
	open   bool
}

// A translationStep is a component whose holes are being visited. An explicit stack replaces recursion,
// since references may lead through the whole document.
type translationStep struct {
	c    *component
	next int
}

// finish translates root and everything it refers to that is not translated yet.
func (t *Translator) finish(root *component) {
	meet := func(c *component) { t.write(c) }
	leads := func(*hole) bool { return true }
	connected(0, []*component{root}, meet, leads, t.seal)
}

// connected finds the strongly connected components of the reference graph and calls
// found for each: a set of components with circular references, or a single component.
// A set always comes after the sets that it refers to. Only holes that leads accepts are
// followed. Slot selects the visit to use in each component; earlier visits in that slot
// must be complete.
func connected(slot int, roots []*component, meet func(*component), leads func(*hole) bool, found func([]*component)) {
	var number int32
	var open []*component
	var path []translationStep
	enter := func(c *component) {
		meet(c)
		number++
		c.visits[slot] = visit{number, number, true}
		open = append(open, c)
		path = append(path, translationStep{c: c})
	}
	for _, root := range roots {
		if root.visits[slot].number == 0 {
			enter(root)
		}
		for len(path) > 0 {
			top := &path[len(path)-1]
			here := &top.c.visits[slot]
			if top.next < len(top.c.holes) {
				h := &top.c.holes[top.next]
				top.next++
				switch there := &h.to.visits[slot]; {
				case !leads(h):
				case there.number == 0:
					enter(h.to)
				case there.open:
					here.low = min(here.low, there.number)
				}
				continue
			}
			c := top.c
			path = path[:len(path)-1]
			if len(path) > 0 {
				above := &path[len(path)-1].c.visits[slot]
				above.low = min(above.low, here.low)
			}
			if here.low == here.number {
				first := len(open) - 1
				for open[first] != c {
					first--
				}
				for _, member := range open[first:] {
					member.visits[slot].open = false
				}
				found(open[first:])
				open = open[:first]
			}
		}
	}
}

// seal decides how the components of a circle, or a single component, are written.
func (t *Translator) seal(circle []*component) {
	if len(circle) == 1 && !refersTo(circle[0], circle[0]) {
		t.measure(circle[0])
		return
	}
	for _, c := range circle {
		c.recursive = true
	}
	for _, c := range t.untangle(circle) {
		t.measure(c)
	}
}

func refersTo(c, to *component) bool {
	return slices.ContainsFunc(c.holes, func(h hole) bool { return h.to == to })
}

// untangle cuts references that would make validation endless, because a component of the
// circle would validate a value by validating the same value again. It returns the circle
// and the components it added, each after those that it uses to validate the same value.
//
// The usual case is a base with a oneOf of its subtypes, each of which has an allOf with
// the base. A subtype then refers to a variant of the base without the oneOf, which is
// what the document means.
func (t *Translator) untangle(circle []*component) []*component {
	inside := make(map[*component]bool, len(circle))
	for _, c := range circle {
		inside[c] = true
		c.visits[1] = visit{}
	}
	same := func(h *hole) bool { return h.reach != apart && inside[h.to] }
	all := slices.Clip(circle)
	connected(1, circle, func(*component) {}, same, func(tangle []*component) {
		if len(tangle) > 1 {
			all = append(all, t.bases(tangle)...)
		}
	})
	for _, c := range all {
		inside[c] = true
		c.visits[1] = visit{}
	}
	return cutCircles(all, same)
}

// bases creates the variants of those components of a tangle that are parts of others.
func (t *Translator) bases(tangle []*component) []*component {
	base := make(map[*component]*component, len(tangle))
	for _, c := range tangle {
		base[c] = nil
	}
	var made []*component
	variant := func(c *component) *component {
		if base[c] == nil {
			b := *c
			b.name = t.newName(c.name)
			b.holes = append([]hole(nil), c.holes...)
			b.text = append([]byte(nil), c.text...)
			base[c] = &b
			made = append(made, &b)
		}
		return base[c]
	}
	redirect := func(c *component) {
		for i := range c.holes {
			h := &c.holes[i]
			if _, tangled := base[h.to]; tangled && h.reach == together {
				h.to = variant(h.to)
			}
		}
	}
	for _, c := range tangle {
		redirect(c)
	}
	for i := 0; i < len(made); i++ {
		redirect(made[i])
		open(made[i], base)
	}
	return made
}

// open makes c accept the values that its choices among the components of a tangle would
// reject.
func open(c *component, tangle map[*component]*component) {
	for i := range c.holes {
		h := &c.holes[i]
		if _, tangled := tangle[h.to]; tangled && h.reach == choosing {
			h.cut, h.reach, c.loose = true, together, true
		}
	}
}

// cutCircles cuts the references of one kind that close a circle. It returns the
// components in the order in which a depth-first walk finishes them.
func cutCircles(components []*component, kind func(*hole) bool) []*component {
	left := make([]*component, 0, len(components))
	var path []translationStep
	for _, root := range components {
		if root.visits[1].number == 0 {
			path = append(path, translationStep{c: root})
			root.visits[1] = visit{number: 1, open: true}
		}
		for len(path) > 0 {
			top := &path[len(path)-1]
			if top.next == len(top.c.holes) {
				top.c.visits[1].open = false
				left = append(left, top.c)
				path = path[:len(path)-1]
				continue
			}
			h := &top.c.holes[top.next]
			top.next++
			switch there := &h.to.visits[1]; {
			case h.cut || !kind(h):
			case there.open:
				h.cut = true
			case there.number == 0:
				*there = visit{number: 1, open: true}
				path = append(path, translationStep{c: h.to})
			}
		}
	}
	return left
}

// measure sets the fields of c that depend on its targets. It cuts references that would
// make a validator apply too many subschemas to one value.
func (t *Translator) measure(c *component) {
	c.together = 1
	for i := range c.holes {
		h := &c.holes[i]
		if h.reach == apart || h.cut {
			continue
		}
		if h.reach == negated && h.to.loose {
			h.cut = true // it would reject what the document allows
			continue
		}
		if c.together+h.to.together > maxTogether {
			t.warn("the schema %s is simplified: it would judge each value by more than %d others", c.title(), maxTogether)
			h.cut, c.loose = true, true
			continue
		}
		c.together += h.to.together
		c.loose = c.loose || h.to.loose
	}
	for _, l := range t.layouts {
		switch l {
		case defsLayout:
			c.resize(l, 0)
		case inlineLayout:
			if c.resize(l, inlineBudget); c.measures[l].size > inlineBudget {
				c.resize(l, smallTarget)
			}
		default:
			c.resize(l, smallTarget)
		}
	}
}

// resize sets the size limit for targets in place, and the fields that depend on it.
func (c *component) resize(l layout, limit int) {
	m := &c.measures[l]
	*m = measure{limit: limit, size: len(c.text), worst: len(c.text)}
	for i := range c.holes {
		h := &c.holes[i]
		to := &h.to.measures[l]
		switch {
		case h.cut:
			m.size += len(`"allOf":[{"not":{}}]`)
			m.worst += len(`"allOf":[{"not":{}}]`)
		case c.inPlace(h, l):
			m.size += to.size + len(`"allOf":[]`)
			m.worst += to.worst + len(`"allOf":[]`)
			m.height = max(m.height, to.height+1)
		default:
			m.size += h.to.refSize()
			m.worst += max(h.to.refSize(), stubBytes+len(h.to.name))
		}
	}
}

// title returns the name of c for a warning.
func (c *component) title() string {
	if c.name == "" {
		return "of an operation"
	}
	return c.name
}
