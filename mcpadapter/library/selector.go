package library

import (
	"fmt"

	"github.com/fairwayhq/fairway/internal/nearest"
	"github.com/fairwayhq/fairway/ocp/selector"
	"github.com/fairwayhq/fairway/ocp/tool"
)

// selectorWarnings returns warnings about selectors that select no GET operation.
func (l *Library) selectorWarnings(tools *tool.Toolset) (warnings []tool.Warning) {
	for _, s := range l.options.Operations {
		chosen, err := tool.SelectTools([]selector.Selector{s})
		if err != nil || choosesResource(chosen, tools) { // NewLibrary has already returned the error
			continue
		}
		reason := fmt.Sprintf("resources: %s matches no GET operation of the document", s)
		if near := nearestSelected(s, tools); near != "" {
			reason += "; did you mean " + near + "?"
		}
		warnings = append(warnings, tool.Warning{Reason: reason})
	}
	return warnings
}

func choosesResource(chosen func(*tool.Tool) bool, tools *tool.Toolset) bool {
	for _, tool := range tools.Tools() {
		if tool.Method == "GET" && chosen(tool) {
			return true
		}
	}
	return false
}

// nearestSelected returns the existing value that is most similar to the selector's value, or "".
func nearestSelected(s selector.Selector, tools *tool.Toolset) string {
	return nearest.Name(s.Value, func(yield func(string) bool) {
		for _, tool := range tools.Tools() {
			if tool.Method != "GET" {
				continue
			}
			var values []string
			switch s.By {
			case "tag":
				values = tool.Tags
			case "operation":
				values = []string{tool.Name, tool.OperationID}
			case "path":
				values = []string{tool.Path}
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
func (a *App) toolWarning(name string, tools *tool.Toolset) tool.Warning {
	reason := fmt.Sprintf("app %s: unknown tool %s", a.URI, name)
	near := nearest.Name(name, func(yield func(string) bool) {
		for _, tool := range tools.Tools() {
			if !yield(tool.Name) {
				return
			}
		}
	})
	if near != "" {
		reason += "; did you mean " + near + "?"
	}
	return tool.Warning{Reason: reason}
}
