package celenv

// Costs reports whether the program has a cost limit.
func (p *Program) Costs() bool { return p.costs }
