package match

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/wire"
	"github.com/fairwayhq/fairway/ocp/internal/style"
	"github.com/fairwayhq/fairway/ocp/internal/validate"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// requestPlan is the data to read a tool's plain requests. It is built on the first such
// request, because most tools never get one.
type requestPlan struct {
	filled       []int         // positions of the arguments that the gateway fills
	shapes       []style.Shape // of Tool.all, by position
	query        []int         // positions in reading order
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

func requestPlanOf(t *tool.Tool) *requestPlan {
	return t.Plan().Cache(func() any {
		p := new(requestPlan)
		p.make(t)
		return p
	}).(*requestPlan)
}

func (p *requestPlan) make(t *tool.Tool) {
	owner := &shapes{schema: t.Plan().Schema(), nodes: make(map[[sha256.Size]byte]*shape)}
	all, planned := t.All(), t.Plan()
	p.shapes = make([]style.Shape, len(all))
	p.names = make(map[string]int, len(all))
	p.headerNames, p.properties = make(map[string]int), make(map[string]int)
	p.queryNames, p.pathNames, p.bodyNames = make(aliases), make(aliases), make(aliases)
	for i := range all {
		a := &all[i]
		p.names[a.Name] = i
		p.shapes[i] = owner.of(owner.argument(t, i))
		if planned.Body.IsType(i) {
			continue
		}
		filled := planned.Arguments[i].Filled
		if filled {
			p.filled = append(p.filled, i)
		}
		switch a.In {
		case tool.InQuery:
			if !filled {
				p.query = append(p.query, i)
			}
			p.queryNames.add(a.WireName)
		case tool.InPath:
			p.pathNames.add(a.WireName)
		case tool.InCookie:
			p.readsCookies = true
			if !filled {
				p.cookies = append(p.cookies, i)
			}
		case tool.InHeader:
			if !filled {
				p.headers = append(p.headers, i)
			}
			p.headerNames[a.WireName] = i
		case tool.InBody:
			p.properties[a.WireName] = i
			p.bodyNames.add(a.WireName)
		}
	}
	for _, id := range planned.Identity {
		if id.In == style.Query {
			p.queryNames.add(id.Name)
		}
	}
	// An exploded object takes the names that no other parameter has, and one that is open
	// takes any name, so read these last.
	byPriority := func(a, b int) int { return bindingPriority(p.shapes[a]) - bindingPriority(p.shapes[b]) }
	slices.SortStableFunc(p.query, byPriority)
	slices.SortStableFunc(p.cookies, byPriority)
	p.excludes = excludesNames(t.InputSchema)
	p.body = bodyShape{plan: p}
	if planned.OpenBody {
		p.body.further, p.body.open = furtherProperties(owner), true
	}
}

// bindingPriority ranks how likely an object is to take the query parameter of another argument.
func bindingPriority(s style.Shape) int {
	if s.Types()&style.Object == 0 {
		return 0
	}
	if _, takesAny := s.Property(""); takesAny {
		return 2
	}
	return 1
}

// furtherProperties returns the shape of additional properties, or nil if they may be
// anything.
func furtherProperties(owner *shapes) style.Shape {
	if further := wire.MemberOf(owner.schema, "additionalProperties"); further.Kind() == '{' {
		return owner.of(further)
	}
	return nil
}

// bodyShape is the shape of a body whose properties are separate arguments.
type bodyShape struct {
	plan    *requestPlan
	further style.Shape
	open    bool
}

// Types returns the type of the body, an object.
func (b *bodyShape) Types() style.Types { return style.Object }

// Item returns nil, because the body is not an array.
func (b *bodyShape) Item() style.Shape { return nil }

// Property returns the shape of the argument for a property.
func (b *bodyShape) Property(name string) (style.Shape, bool) {
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
	whole, stem := style.Alias(name), style.Alias(style.Stem(name))
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
func (p *requestPlan) checkUndeclared(in tool.Location, name string) error {
	first, second := p.queryNames, p.bodyNames
	if in == tool.InBody {
		first, second = second, first
	}
	if err := first.check(in, name); err != nil {
		return err
	}
	if err := second.check(in, name); err != nil || in == tool.InBody {
		return err
	}
	return p.pathNames.check(in, name)
}

// check returns an error if an undeclared name may be confused with a declared one.
func (a aliases) check(in tool.Location, name string) error {
	whole := style.Alias(name)
	declared, ok := a[whole]
	if !ok {
		declared, ok = a[whole+bare]
	}
	if !ok {
		declared, ok = a[style.Alias(style.Stem(name))]
	}
	if ok {
		return &RequestError{
			Kind: AmbiguousValue, In: in, Name: name,
			Message: "the " + string(in) + " parameter " + strconv.Quote(text.Cut(name, validate.MaxProblem)) + " is read by some servers as " +
				strconv.Quote(declared) + ": use that name",
		}
	}
	return nil
}

// pathValues appends the values of the tool's path parameters, still encoded, in the order
// of the template.
func pathValues(t *tool.Tool, dst []string, path string) ([]string, error) {
	rest, parts := path, t.Plan().Parts
	for i, part := range parts {
		if part.Literal != "" {
			if !hasPrefixEscaped(rest, part.Literal) {
				return nil, wrongPath(t, path)
			}
			rest = rest[len(part.Literal):]
			continue
		}
		next := ""
		if i+1 < len(parts) {
			if next = parts[i+1].Literal; next == "" {
				return nil, &RequestError{
					Kind: AmbiguousValue, In: tool.InPath, Name: t.All()[part.Argument].WireName,
					Message: "the path parameters of " + t.Operation() + " are adjacent and cannot be distinguished: call it as a tool",
				}
			}
		}
		length, err := valueLen(t, rest, next, i+2 >= len(parts), part.Argument)
		if err != nil {
			return nil, err
		}
		if length <= 0 {
			return nil, wrongPath(t, path)
		}
		dst = append(dst, rest[:length])
		rest = rest[length:]
	}
	if rest != "" {
		return nil, wrongPath(t, path)
	}
	return dst, nil
}

// valueLen returns the length of a path parameter's value, up to the literal next, or 0 if
// there is no value.
func valueLen(t *tool.Tool, rest, next string, last bool, argument int) (int, error) {
	segment, _, _ := strings.Cut(rest, "/")
	next, _, ends := strings.Cut(next, "/")
	if ends || last {
		if len(segment) < len(next) || !hasPrefixEscaped(segment[len(segment)-len(next):], next) {
			return 0, nil
		}
		return len(segment) - len(next), nil
	}
	if segment == "" {
		return 0, nil
	}
	at := strings.Index(segment[1:], next)
	if at >= 0 && strings.Count(decodeTriples(segment[1:]), decodeTriples(next)) > 1 {
		return 0, &RequestError{
			Kind: AmbiguousValue, In: tool.InPath, Name: t.All()[argument].WireName,
			Message: "the path parameters of " + t.Operation() + " cannot be distinguished: " + strconv.Quote(next) + " is between them and in one of them",
		}
	}
	return at + 1, nil
}

func wrongPath(t *tool.Tool, path string) error {
	return &RequestError{
		Kind: WrongPath, In: tool.InPath,
		Message: "the path " + strconv.Quote(text.Cut(path, validate.MaxProblem)) + " is not one of " + t.Operation(),
	}
}

// hasPrefixEscaped reports whether the escaped path begins with the literal. The case of
// the digits in %XX is ignored.
func hasPrefixEscaped(path, literal string) bool {
	if len(path) < len(literal) {
		return false
	}
	if path[:len(literal)] == literal {
		return true
	}
	for i := 0; i < len(literal); i++ {
		if path[i] != literal[i] {
			return false
		}
		if literal[i] == '%' && i+2 < len(literal) {
			if !strings.EqualFold(path[i+1:i+3], literal[i+1:i+3]) {
				return false
			}
			i += len("XX")
		}
	}
	return true
}

// undeclaredMember reports whether a property of the body is not an argument and cannot
// become one.
func (p *requestPlan) undeclaredMember(t *tool.Tool, name string) bool {
	_, argument := p.names[name]
	planned := t.Plan()
	return argument || !planned.OpenBody || planned.Taken[name] || name == UndeclaredQuery || name == UndeclaredProperties
}
