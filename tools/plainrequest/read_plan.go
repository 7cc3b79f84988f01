package plainrequest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// requestPlan is the data to read a tool's plain requests. It is built on the first such
// request, because most tools never get one.
type requestPlan struct {
	tool      *tools.Tool
	declared  []tools.Argument      // of the tool's Plan
	encodings []request.Argument    // of declared, by position
	schema    func() jsontext.Value // of the arguments in plain requests
	validator *schema.Validator     // of schema

	filled       []int           // positions of the arguments that the gateway fills
	shapes       []request.Shape // of Tool.all, by position
	query        []int           // positions in reading order
	cookies      []int
	headers      []int
	readsCookies bool
	names        map[string]int // of all arguments
	headerNames  map[string]int // canonical
	properties   map[string]int // arguments of the body by wire name
	body         bodyShape
	excludes     bool // see excludesNames

	queryNames aliases
	pathNames  aliases
	bodyNames  aliases
}

// planOf returns the plan of a tool.
func (r *Routes) planOf(t *tools.Tool) *requestPlan {
	if known, ok := r.plans.Load(t); ok {
		return known.(*requestPlan)
	}
	plan, _ := r.plans.LoadOrStore(t, newRequestPlan(t))
	return plan.(*requestPlan)
}

func newRequestPlan(t *tools.Tool) *requestPlan {
	p := &requestPlan{tool: t, declared: t.Plan.Arguments, encodings: t.Plan.Encodings, schema: t.FullSchema, validator: t.Definition.Validator}
	p.unguard()
	owner := newShapes(p.schema())
	p.shapes = make([]request.Shape, len(p.declared))
	p.names = make(map[string]int, len(p.declared))
	p.headerNames, p.properties = make(map[string]int), make(map[string]int)
	p.queryNames, p.pathNames, p.bodyNames = make(aliases), make(aliases), make(aliases)
	for i := range p.declared {
		a := &p.declared[i]
		p.names[a.Name] = i
		p.shapes[i] = owner.of(owner.argument(t, i))
		if t.Plan.Body.IsType(i) {
			continue
		}
		filled := p.encodings[i].Filled
		if filled {
			p.filled = append(p.filled, i)
		}
		switch a.In {
		case tools.InQuery:
			if !filled {
				p.query = append(p.query, i)
			}
			p.queryNames.add(a.WireName)
		case tools.InPath:
			p.pathNames.add(a.WireName)
		case tools.InCookie:
			p.readsCookies = true
			if !filled {
				p.cookies = append(p.cookies, i)
			}
		case tools.InHeader:
			if !filled {
				p.headers = append(p.headers, i)
			}
			p.headerNames[a.WireName] = i
		case tools.InBody:
			p.properties[a.WireName] = i
			p.bodyNames.add(a.WireName)
		}
	}
	for _, id := range t.Plan.Identity {
		if id.In == request.Query {
			p.queryNames.add(id.Name)
		}
	}
	// An exploded object takes the names that no other parameter has, and one that is open
	// takes any name, so read these last.
	byPriority := func(a, b int) int { return bindingPriority(p.shapes[a]) - bindingPriority(p.shapes[b]) }
	slices.SortStableFunc(p.query, byPriority)
	slices.SortStableFunc(p.cookies, byPriority)
	listed, _ := schema.Parse(t.Definition.InputSchema)
	p.excludes = excludesNames(listed.Tree, true)
	p.body = bodyShape{plan: p}
	if t.Plan.Undeclared.Open {
		p.body.further, p.body.open = furtherProperties(owner), true
	}
	return p
}

// unguard makes the plan read guarded arguments. Shapes apply to tool calls only, so a plain request may give a
// guarded argument any value. The value is read like that of any other argument, so that rules about the
// operation see it.
func (p *requestPlan) unguard() {
	var add []strictjson.Member
	for i := range p.encodings {
		if !p.encodings[i].Guarded {
			continue
		}
		if add == nil {
			p.encodings = slices.Clone(p.encodings)
		}
		p.encodings[i].Filled, p.encodings[i].Fill = false, nil
		add = append(add, strictjson.Member{Name: p.declared[i].Name, Value: p.declared[i].Schema})
	}
	if add != nil {
		edit := schema.Edit{Add: add}
		p.schema = func() jsontext.Value { return edit.Apply(p.tool.FullSchema()) }
		p.validator = new(schema.Validator)
	}
}

// bindingPriority ranks how likely an object is to take the query parameter of another argument.
func bindingPriority(s request.Shape) int {
	if s.Types()&request.Object == 0 {
		return 0
	}
	if _, takesAny := s.Property(""); takesAny {
		return 2
	}
	return 1
}

// furtherProperties returns the shape of additional properties, or nil if they may be
// anything.
func furtherProperties(owner *shapes) request.Shape {
	if further := owner.root.Part("additionalProperties"); further != nil && further.Text.Kind() == '{' {
		return owner.of(further)
	}
	return nil
}

// bodyShape is the shape of a body whose properties are separate arguments.
type bodyShape struct {
	plan    *requestPlan
	further request.Shape
	open    bool
}

// Types returns the type of the body, an object.
func (b *bodyShape) Types() request.Types { return request.Object }

// Item returns nil, because the body is not an array.
func (b *bodyShape) Item() request.Shape { return nil }

// Property returns the shape of the argument for a property.
func (b *bodyShape) Property(name string) (request.Shape, bool) {
	if i, ok := b.plan.properties[name]; ok {
		return b.plan.shapes[i], true
	}
	return b.further, b.open
}

// aliases maps the names that servers may confuse with a declared name to that name.
type aliases map[string]string

// bare marks the part of a declared name that precedes its brackets.
const bare = "\x00"

func (a aliases) add(name string) {
	whole, stem := request.Alias(name), request.Alias(request.Stem(name))
	a[whole] = name
	if stem != whole {
		a[stem+bare] = name
	}
	if strings.HasSuffix(name, "[]") {
		a[stem] = name
	}
}

// checkUndeclared returns an error if a server may confuse an undeclared name of the query
// or the body with a declared one. Many servers merge parameters of different locations
// (Servlet, Rails, PHP). A body property with the name of a path parameter is allowed,
// because it often is the id of the whole object.
func (p *requestPlan) checkUndeclared(in tools.Location, name string) error {
	first, second := p.queryNames, p.bodyNames
	if in == tools.InBody {
		first, second = second, first
	}
	if err := first.check(in, name); err != nil {
		return err
	}
	if err := second.check(in, name); err != nil || in == tools.InBody {
		return err
	}
	return p.pathNames.check(in, name)
}

// check returns an error if an undeclared name may be confused with a declared one.
func (a aliases) check(in tools.Location, name string) error {
	whole := request.Alias(name)
	declared, ok := a[whole]
	if !ok {
		declared, ok = a[whole+bare]
	}
	if !ok {
		declared, ok = a[request.Alias(request.Stem(name))]
	}
	if ok {
		return &match.RequestError{
			Kind: request.Ambiguous, In: in, Name: name,
			Message: "the " + string(in) + " parameter " + strconv.Quote(text.Cut(name, schema.MaxProblem)) + " is read by some servers as " +
				strconv.Quote(declared) + ": use that name",
		}
	}
	return nil
}

// undeclaredMember reports whether a property of the body is not an argument and cannot
// become one.
func (p *requestPlan) undeclaredMember(name string) bool {
	_, argument := p.names[name]
	return argument || !p.tool.Plan.Undeclared.Open || p.tool.Plan.Undeclared.Taken[name] || name == undeclaredQuery || name == undeclaredProperties
}
