package oagent

import (
	"context"
	"net/http"

	"github.com/fairwayhq/fairway/oagent"
	"github.com/fairwayhq/fairway/tools"
)

// editKey is the context key of the oagent.Edit of a call with the arguments of a reviewer. Clients cannot set it.
type editKey struct{}

// requireEdit ends a request to the API whose call must be made with the arguments of a reviewer. Package route makes that call, which
// passes all handlers of the site, and then this one.
func (d *decision) requireEdit(edit *oagent.Edit) error {
	d.request.rec.Refusal = &tools.Failure{
		Kind: tools.Restricted, Message: "The API was not called: " + edit.Error() + ".",
		Edited: &tools.Edited{
			Arguments: d.request.call.Tool.CallerArguments(edit.Inputs),
			Context:   func(ctx context.Context) context.Context { return context.WithValue(ctx, editKey{}, edit) },
		},
	}
	d.request.w.WriteHeader(http.StatusConflict)
	return nil
}
