package httpapi

import (
	"crypto/rand"

	"github.com/fairwayhq/fairway/oagent/model"
)

// Finish completes a response that an API sent: it maps the names of tools back, gives calls
// without a unique id one, makes Stop consistent with the calls, and estimates the usage if the
// API did not report it. If there are too many calls, it returns an error.
func Finish(request *model.Request, response *model.Response, names *model.Names) error {
	if err := CheckCalls(len(response.Calls)); err != nil {
		return err
	}
	ids := make(map[string]bool, len(response.Calls))
	for i := range response.Calls {
		call := &response.Calls[i]
		call.Name = names.FromAPI(call.Name)
		if call.ID == "" || ids[call.ID] {
			call.ID = "call_" + rand.Text()
		}
		ids[call.ID] = true
		if call.Arguments == "" {
			call.Arguments = "{}"
		}
	}
	switch {
	case len(response.Calls) > 0 && response.Stop == model.StopEnd:
		response.Stop = model.StopTools
	case len(response.Calls) == 0 && response.Stop == model.StopTools:
		response.Stop = model.StopEnd
	}
	if response.Usage.InputTokens <= 0 || response.Usage.OutputTokens < 0 {
		response.Usage = model.EstimateUsage(request, response)
	}
	return nil
}

// CheckCalls returns an error if a response has too many calls.
func CheckCalls(calls int) error {
	if calls > model.MaxCalls {
		return model.Errorf(model.KindTooLarge, "the response has more than %d tool calls", model.MaxCalls)
	}
	return nil
}
