package otcadapter

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

const (
	// maxProblems limits how many invalid arguments a response reports.
	maxProblems = 20

	// maxProblem limits the text about each invalid argument, in bytes.
	maxProblem = 300

	// maxListedParameters limits how many parameters of the tool a response names.
	maxListedParameters = 40
)

// Advice for a model that fits several cases.
const (
	checkFirst         = "It is unknown whether the call had an effect. Do not repeat it before you have checked the current state with another tool."
	checkAfterResponse = "The API has responded, so the call may have had its effect. Do not repeat it before you have checked the current state with another tool."
	useAnotherTool     = "Do not repeat the call: use another tool, or tell the user."
	reportToUser       = "Other input does not help: do not repeat the call, and tell the user what is missing."
)

// promptContent advises a model how to handle a failed call (OTC 1.0, Tool Response Schema,
// additional_prompt_content). It returns "" if there is nothing to add to the message. It
// advises to repeat the same input only if the call can be retried.
func promptContent(toolID string, t *tools.Tool, failure *tools.Failure) string {
	if failure.Retryable(t) {
		prompt := "Call " + toolID + " again with the same input" + afterDelay(failure.RetryAfter) + "."
		if failure.Status == http.StatusTooManyRequests {
			return "Too many calls were made. " + prompt
		}
		return prompt
	}
	safe := t != nil && t.ReadOnly()
	switch failure.Kind {
	case tools.InvalidArguments:
		return repairPrompt(toolID, t, failure.Problems)
	case tools.Refused:
		return rejectedPrompt(toolID, t, failure)
	case tools.Failed, tools.Unreachable, tools.TimedOut:
		if failure.Status == http.StatusNotImplemented {
			return "The API cannot do this. " + useAnotherTool
		}
		return checkFirst
	case tools.TooLarge:
		if safe {
			return "Request less: choose input for " + toolID + " that results in a smaller response." + listParameters(t)
		}
		return checkAfterResponse
	case tools.Unreadable, tools.Redirected:
		if safe {
			return "The same call would fail again. " + useAnotherTool
		}
		return checkAfterResponse
	}
	return ""
}

// rejectedPrompt is promptContent for a rejection that repeating cannot change.
func rejectedPrompt(toolID string, tool *tools.Tool, failure *tools.Failure) string {
	switch failure.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusPaymentRequired:
		return reportToUser
	case http.StatusNotFound, http.StatusGone:
		return "The input refers to something that does not exist: find it with another tool, and call " + toolID + " with the result." + listParameters(tool)
	case http.StatusConflict, http.StatusPreconditionFailed:
		return "The current state does not allow this call: read the state with another tool before you call " + toolID + " again."
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return checkFirst // safe calls can be retried
	case http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType:
		return useAnotherTool
	}
	return "Correct the input according to the message of the API, and call " + toolID + " again." + listParameters(tool)
}

// afterDelay returns the end of a sentence that says how long to wait.
func afterDelay(wait time.Duration) string {
	if wait <= 0 {
		return " later"
	}
	return " after " + wait.String()
}

// repairPrompt advises a model how to change its call.
func repairPrompt(toolID string, tool *tools.Tool, problems []tools.Problem) string {
	var prompt strings.Builder
	prompt.WriteString("Correct the input and call " + toolID + " again.")
	for i, problem := range problems {
		if i == maxProblems {
			prompt.WriteString("\n- and " + strconv.Itoa(len(problems)-i) + " more")
			break
		}
		prompt.WriteString("\n- " + problemText(problem))
	}
	prompt.WriteString(listParameters(tool))
	return prompt.String()
}

// listParameters lists the parameters of the tool. Required ones are marked with a star.
func listParameters(tool *tools.Tool) string {
	if tool == nil || len(tool.Definition.Arguments) == 0 {
		return ""
	}
	var source strings.Builder
	source.WriteString("\nParameters (* means required): ")
	for i := range tool.Definition.Arguments {
		if i == maxListedParameters {
			source.WriteString(", …")
			break
		}
		if i > 0 {
			source.WriteString(", ")
		}
		source.WriteString(tool.Definition.Arguments[i].Name)
		if tool.Definition.Arguments[i].Required {
			source.WriteByte('*')
		}
	}
	return source.String()
}

// problemText reports the problem with the parameter's JSON Pointer.
func problemText(problem tools.Problem) string {
	path := cmp.Or(problem.Path, "input")
	return text.Cut(path, maxProblem) + ": " + text.Cut(problem.Message, maxProblem)
}

// developerMessage describes a failure for developers: the step that failed, the operation, and
// the API's status. It contains nothing that came with the call.
func developerMessage(tool *tools.Tool, failure *tools.Failure) string {
	source := "failure: " + string(failure.Kind)
	if tool != nil {
		source += ", operation: " + tool.Plan.Method + " " + tool.Plan.Path
	}
	if failure.Status != 0 {
		source += fmt.Sprintf(", status of the API: %d", failure.Status)
	}
	if n := len(failure.Problems); n > 0 {
		source += ", " + problemText(failure.Problems[0])
		if n > 1 {
			source += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	return source
}
