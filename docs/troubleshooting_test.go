package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestLogMessages_has_all_messages checks that the page has each warning and error that Fairway logs, by its text.
func TestLogMessages_has_all_messages(t *testing.T) {
	data, err := os.ReadFile("log-messages.md")
	if err != nil {
		t.Fatal(err)
	}
	content := strings.Join(strings.Fields(string(data)), " ")
	found := logMessages(t)
	for message, position := range found {
		if !strings.Contains(content, message) {
			t.Errorf("%s: docs/log-messages.md does not have the message: %s", position, message)
		}
	}
	if len(found) < 40 {
		t.Errorf("only %d messages found", len(found))
	}
}

// logMessages returns the messages that the source logs as warnings or errors, and their positions.
func logMessages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, directory := range []string{"caddymodule", "ocp", "oagent", "mcpadapter", "otcadapter", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, directory), func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && strings.HasSuffix(entry.Name(), "test") {
				return filepath.SkipDir
			}
			if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				call, isCall := node.(*ast.CallExpr)
				if !isCall {
					return true
				}
				if message, isMessage := logged(call); isMessage {
					found[message] = files.Position(call.Pos()).String()
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// logged returns the message of a call that logs a warning or an error: logger.Warn, logger.Error,
// logger.Check with such a level, App.StoreErrors.
func logged(call *ast.CallExpr) (string, bool) {
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	if !isMethod {
		return "", false
	}
	name := method.Sel.Name
	switch {
	case len(call.Args) > 0 && (name == "Warn" || name == "Error"):
		return literal(call.Args[0])
	case len(call.Args) > 1 && name == "StoreErrors":
		return literal(call.Args[1])
	case len(call.Args) > 1 && name == "Check":
		level, isLevel := call.Args[0].(*ast.SelectorExpr)
		if isLevel && (level.Sel.Name == "WarnLevel" || level.Sel.Name == "ErrorLevel") {
			return literal(call.Args[1])
		}
	}
	return "", false
}

// literal returns the value of a string literal, or of literals that are added.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, leftIsText := literal(e.X)
		right, rightIsText := literal(e.Y)
		return left + right, leftIsText && rightIsText
	}
	return "", false
}
