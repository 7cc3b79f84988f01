package route

import (
	"cmp"
	"context"
	"net/http"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/tools"
)

// withCaller returns a context for credentials that depend on the user.
func (d *dispatch) withCaller(ctx context.Context, t *tools.Tool) context.Context {
	return credential.ContextWithCaller(ctx, &credential.Caller{
		User: AuthenticatedUser(d.client.Request), Tool: cmp.Or(t.Definition.Title, t.Name), Accounts: d.endpoint.App.AccountsAt(d.endpoint.agent.site),
	})
}

// invokePersonal performs a call with credentials of the user. If the API does not accept them, they are renewed by the next
// request, and a call that is idempotent makes one at once.
func (d *dispatch) invokePersonal(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	ctx = d.withCaller(ctx, call.Tool)
	result, err := d.invoke(ctx, call)
	if !isUnauthorized(result, err) {
		return result, err
	}
	d.credentials.Rejected(ctx)
	if !call.Tool.Idempotent() {
		return result, &tools.Failure{Kind: tools.Refused, Status: http.StatusUnauthorized, Message: operationOf(call.Tool) +
			" answered 401 Unauthorized: it did not accept the credential of the user's account; call again, and the gateway uses a new one or says how to connect the account"}
	}
	result.Release()
	if result, err = d.invoke(ctx, call); isUnauthorized(result, err) {
		d.credentials.Rejected(ctx)
	}
	return result, err
}

func isUnauthorized(r *tools.Result, err error) bool {
	return err == nil && r != nil && r.Status == http.StatusUnauthorized
}
