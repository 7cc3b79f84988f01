package library

import (
	"fmt"
	"slices"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/build"
)

// selectorWarnings returns warnings about selectors that select no GET operation.
func (l *Library) selectorWarnings(toolset *tools.Toolset) (warnings []tools.Warning) {
	for _, s := range l.options.Operations {
		chosen, err := tools.SelectTools([]build.Selector{s})
		if err != nil || choosesResource(chosen, toolset) { // NewLibrary has already returned the error
			continue
		}
		reason := fmt.Sprintf("resources: %s matches no GET operation of the document", s)
		if near := nearestSelected(s, toolset); near != "" {
			reason += "; did you mean " + near + "?"
		}
		warnings = append(warnings, tools.Warning{Reason: reason})
	}
	return warnings
}

func choosesResource(chosen func(*tools.Tool) bool, toolset *tools.Toolset) bool {
	return slices.ContainsFunc(toolset.Tools(), func(t *tools.Tool) bool { return t.Plan.Method == "GET" && chosen(t) })
}

// nearestSelected returns the existing value that is most similar to the selector's value, or "".
func nearestSelected(s build.Selector, toolset *tools.Toolset) string {
	for _, tool := range toolset.Tools() {
		if s.By == "operation" && s.Value == tool.Unshaped.Former {
			return tool.Name
		}
	}
	return text.Nearest(s.Value, func(yield func(string) bool) {
		for _, tool := range toolset.Tools() {
			if tool.Plan.Method != "GET" {
				continue
			}
			var values []string
			switch s.By {
			case "tag":
				values = tool.Definition.Tags
			case "operation":
				values = []string{tool.Name, tool.Definition.OperationID}
			case "path":
				values = []string{tool.Plan.Path}
			}
			for _, value := range values {
				if value != "" && !yield(value) {
					return
				}
			}
		}
	})
}

// toolWarning returns the warning for an app whose tool does not exist.
func (a *App) toolWarning(name string, toolset *tools.Toolset) tools.Warning {
	reason := fmt.Sprintf("app %s: unknown tool %s", a.URI, name)
	if near := toolset.Nearest(name, func(*tools.Tool) bool { return true }); near != "" {
		reason += "; did you mean " + near + "?"
	}
	return tools.Warning{Reason: reason}
}
