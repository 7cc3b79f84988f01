package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// limits has the constants of each row of limits.md, by the beginning of its subject, in the order of the numbers.
// A constant is the directory of its package and its name. A number that is that of several constants has them separated by a space.
var limits = map[string][]string{
	"OpenAPI document":              {"tools/source.DefaultMaxDocument"},
	"overlay file":                  {"tools/overlay.MaxSize", "tools/overlay.maxActions"},
	"listed schema":                 {"tools.DefaultMaxSchema"},
	"all tools of a document":       {"tools.maxListed"},
	"one page":                      {"mcpadapter/internal/catalog.MaxPageBytes"},
	"description of a tool":         {"tools/build.defaultDescriptionTokens"},
	"toolsets of an endpoint":       {"caddymodule/route.maxToolsets"},
	"one tool call":                 {"caddymodule/app.DefaultTimeout", "caddymodule/route.maxStreamTimeouts"},
	"response of the API":           {"caddymodule/app.DefaultMaxResponse"},
	"what a model gets":             {"caddymodule/app.defaultMaxTokens"},
	"`select`":                      {"tools/result.maxQueryTime", "tools/result.maxQuerySteps", "tools/result.maxQueryMemory", "tools/result.maxQueryOutput"},
	"parts of large":                {"tools/result.PageLifetime", "tools/result.maxKeptResponse", "tools/result.maxKeptPages"},
	"request to `/mcp`":             {"mcpadapter.defaultMaxBody otcadapter.defaultMaxBody"},
	"messages in one":               {"mcpadapter.maxBatch"},
	"all request bodies":            {"caddymodule/bodies.minBodies", "caddymodule/bodies.FreeBody"},
	"speed of a request":            {"caddymodule/bodies.BodyRate", "caddymodule/bodies.BodyGrace"},
	"introspections":                {"internal/oauth/verify.maxIntrospections", "internal/oauth/verify.introspectionWait"},
	"open streams":                  {"mcpadapter.defaultMaxStreams"},
	"MCP session":                   {"mcpadapter.defaultSessionTTL"},
	"question to the user":          {"mcpadapter.DefaultAskTimeout"},
	"resource file":                 {"mcpadapter/library.defaultMaxFile"},
	"files of a folder":             {"mcpadapter/library.maxListedFiles"},
	"files of a skill":              {"mcpadapter/skills.MaxFiles", "mcpadapter/skills.MaxSize", "mcpadapter/skills.maxTotal"},
	"stored OTC response":           {"tools/once.defaultMaxResponse", "tools/once.MaxResponse"},
	"stored OTC call":               {"tools/once.DefaultTTL"},
	"OCP session":                   {"ocp.MaxSession", "ocp.maxInflated"},
	"enhanced response":             {"caddymodule/ocp.defaultMaxEnhanced"},
	"`oagent`: body":                {"caddymodule/oagent.defaultMaxInput caddymodule/oagent.defaultMaxOutput"},
	"`oagent`: values":              {"tools/request.maxTextPairs"},
	"`oagent`: recorded":            {"oagent.DefaultMaxPayload", "oagent.LargestMaxPayload"},
	"an Engagement":                 {"oagent.defaultMaxRecord", "oagent/engagement.MaxEntries", "oagent.DefaultTTL"},
	"pending reviews":               {"oagent/review.MaxOpen", "oagent/review.MaxPending"},
	"hosted runs that a node":       {"oagent/hosted/run.workerMemory", "oagent/hosted/run.minWorkers", "oagent/hosted/run.maxWorkers"},
	"hosted runs in progress":       {"oagent/hosted/run.runsPerWorker"},
	"model request, model response": {"caddymodule/chat.defaultMaxInput", "caddymodule/chat.defaultMaxOutput"},
	"webhook: body":                 {"caddymodule/events.defaultMaxBody", "caddymodule/events.maxMaxBody"},
	"webhooks in progress":          {"caddymodule/events.maxRequests"},
	"subscriptions to events":       {"events/serve.maxPerUser", "events/serve.maxSubscriptions"},
	"events of a toolset":           {"events.DefaultRetention", "events.DefaultMaxSize", "events.MaxSize"},
	"embedded store":                {"store/embedded.defaultMaxRecords", "store/embedded.defaultMaxBytes"},
}

// number is a number of the page with its unit.
var number = regexp.MustCompile(`(\d[\d,]*|\bten)(?: (million|KiB|MiB|GiB|s|min|minutes|h|days)\b)?`)

var units = map[string]int64{
	"": 1, "million": 1e6, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
	"s": int64(time.Second), "min": int64(time.Minute), "minutes": int64(time.Minute), "h": int64(time.Hour), "days": int64(24 * time.Hour),
}

// TestLimits_page_has_the_numbers_of_the_code compares every number of the page with the constant in the code.
func TestLimits_page_has_the_numbers_of_the_code(t *testing.T) {
	data, err := os.ReadFile("limits.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(data), "\n## ")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || strings.Contains(line, "Subject") {
			continue
		}
		rows++
		constants := constantsOf(strings.TrimSpace(cells[1]))
		found := number.FindAllStringSubmatch(cells[2], -1)
		if len(found) == 0 || len(found) != len(constants) {
			t.Errorf("%s: the page has the numbers %q, the test knows the constants %q", cells[1], found, constants)
			continue
		}
		for i, match := range found {
			n, err := strconv.ParseInt(strings.NewReplacer(",", "", "ten", "10").Replace(match[1]), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			for name := range strings.FieldsSeq(constants[i]) {
				want, err := constantValue(name)
				if err != nil {
					t.Error(err)
				} else if got := n * units[match[2]]; got != want {
					t.Errorf("%s: the page has %s = %d, the constant %s is %d", cells[1], match[0], got, name, want)
				}
			}
		}
	}
	if rows != len(limits) {
		t.Errorf("%d rows in the page, %d in the test", rows, len(limits))
	}
}

func constantsOf(subject string) []string {
	for beginning, constants := range limits {
		if strings.HasPrefix(subject, beginning) {
			return constants
		}
	}
	return nil
}

// constantValue returns the value of a constant in the source. Durations are nanoseconds.
func constantValue(name string) (value int64, err error) {
	dot := strings.LastIndex(name, ".")
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name[:max(dot, 0)]), "*.go"))
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return 0, err
		}
		for _, declaration := range parsed.Decls {
			general, ok := declaration.(*ast.GenDecl)
			if !ok || general.Tok != token.CONST {
				continue
			}
			for _, spec := range general.Specs {
				spec := spec.(*ast.ValueSpec)
				if spec.Names[0].Name == name[dot+1:] && len(spec.Values) == 1 {
					return evaluate(spec.Values[0])
				}
			}
		}
	}
	return 0, fmt.Errorf("no constant %s", name)
}

// evaluate computes a constant expression of numbers and of units of package time.
func evaluate(expression ast.Expr) (int64, error) {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return strconv.ParseInt(e.Value, 0, 64)
	case *ast.SelectorExpr:
		value, known := map[string]time.Duration{"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[e.Sel.Name]
		if !known {
			return 0, fmt.Errorf("unknown value %s", e.Sel.Name)
		}
		return int64(value), nil
	case *ast.BinaryExpr:
		x, err := evaluate(e.X)
		if err != nil {
			return 0, err
		}
		y, err := evaluate(e.Y)
		switch {
		case err != nil:
			return 0, err
		case e.Op == token.MUL:
			return x * y, nil
		case e.Op == token.SHL:
			return x << y, nil
		}
	}
	return 0, fmt.Errorf("%T is not supported in a constant of the page", expression)
}

// TestLimits_page_names_every_bounded_resource compares the names of the page with those in the code. A bounded resource is
// made by package share; a semaphore that is not fails the test.
func TestLimits_page_names_every_bounded_resource(t *testing.T) {
	data, err := os.ReadFile("limits.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	_, section, _ := strings.Cut(string(data), "## Shares\n")
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
				listed[name[1]] = true
			}
		}
	}
	inCode := make(map[string]bool)
	for _, folder := range []string{"internal", "store", "tools", "ocp", "mcpadapter", "otcadapter", "oagent", "caddymodule"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return err
			case strings.Contains(filepath.ToSlash(path), "/testkit/") || strings.Contains(filepath.ToSlash(path), "/storetest/"):
				return nil
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			names, problem := boundedIn(parsed)
			if problem != "" {
				t.Errorf("%s: %s", path, problem)
			}
			for _, name := range names {
				inCode[name] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range inCode {
		if !listed[name] {
			t.Errorf("the bounded resource %q is not in limits.md: add it with the owner of its units", name)
		}
	}
	for name := range listed {
		if !inCode[name] {
			t.Errorf("limits.md has %q, which the code does not", name)
		}
	}
}

// boundedIn returns the names of the bounded resources that a file makes, and what it does that has none.
func boundedIn(file *ast.File) (names []string, problem string) {
	name := func(of ast.Expr) {
		literal, ok := of.(*ast.BasicLit)
		if !ok {
			problem = "the name of a bounded resource is not a literal"
			return
		}
		unquoted, _ := strconv.Unquote(literal.Value)
		names = append(names, unquoted)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CompositeLit:
			of := selected(node.Type)
			if of != "share.Options" && of != "share.Usage" && of != "store.Usage" {
				return true
			}
			for _, element := range node.Elts {
				if pair, ok := element.(*ast.KeyValueExpr); ok && pair.Key.(*ast.Ident).Name == "Name" {
					if _, literal := pair.Value.(*ast.BasicLit); literal || of == "share.Options" { // others copy a Usage
						name(pair.Value)
					}
				}
			}
		case *ast.CallExpr:
			called := selected(node.Fun)
			if function, ok := node.Fun.(*ast.Ident); ok {
				called = function.Name
			}
			switch {
			case called == "share.NewSlots":
				name(node.Args[0])
			case called == "semaphore.NewWeighted" || strings.HasSuffix(called, ".SetLimit"):
				problem = called + " is a bounded resource without a name: use package share"
			case called == "make" && len(node.Args) == 2 && isSignal(node.Args[0]):
				if size, ok := node.Args[1].(*ast.BasicLit); !ok || size.Value != "1" {
					problem = "a channel is used as a semaphore: use share.NewSlots or share.NewBound"
				}
			}
		}
		return true
	})
	return names, problem
}

// selected returns package.Name of an expression of that form.
func selected(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok {
			return x.Name + "." + s.Sel.Name
		}
	}
	return ""
}

// isSignal reports whether a type is chan struct{}.
func isSignal(e ast.Expr) bool {
	channel, ok := e.(*ast.ChanType)
	if !ok {
		return false
	}
	of, ok := channel.Value.(*ast.StructType)
	return ok && len(of.Fields.List) == 0
}
