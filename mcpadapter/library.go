package mcpadapter

import "context"

// stamp and watchable are filled in with the resources.
func (x *exchange) stamp(context.Context, string) (string, bool) { return "", false }

func (x *exchange) watchable(string) bool { return false }
