package route

import (
	"cmp"
	"context"
	"net/http"

	"github.com/fairwayhq/fairway/caddymodule/app/credential"
	"github.com/fairwayhq/fairway/tools"
)

// contextWithCaller returns a context for credentials that depend on the user who calls a tool.
func (e *Endpoint) contextWithCaller(ctx context.Context, r *http.Request, t *tools.Tool) context.Context {
	return credential.ContextWithUserCall(ctx, &credential.UserCall{
		User: AuthenticatedUser(r), Tool: cmp.Or(t.Definition.Title, t.Name), Accounts: e.App.AccountsAt(e.agent.site),
	})
}

// A personalInvoker is the tools.Invoker of calls with credentials of the user. If the API does not accept them, they are renewed by the
// next request, and a call that is idempotent makes one at once.
type personalInvoker struct{ dispatch *dispatch }

// Invoke implements tools.Invoker.
func (p personalInvoker) Invoke(ctx context.Context, call *tools.Call) (*tools.Result, error) {
	d := p.dispatch
	ctx = d.endpoint.contextWithCaller(ctx, d.client.Request, call.Tool)
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

// AwaitAccount makes the app report when a user has connected an account at a provider (app.App.OnConnected), on any node.
func (e *Endpoint) AwaitAccount(user, provider string) {
	if accounts := e.App.AccountsAt(e.agent.site); accounts != nil {
		accounts.Await(user, provider)
	}
}
