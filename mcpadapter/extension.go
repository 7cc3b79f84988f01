package mcpadapter

import (
	"bytes"
	"context"
	"sync"

	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
)

// An Extension adds methods and capabilities to a Server, which does not know what they do. All revisions have them. It can add
// resources with library.LibraryOptions.Live.
type Extension struct {
	Name       string // member of capabilities.extensions; "" for none
	Settings   string // its value, a JSON object
	Capability string // further members of ServerCapabilities, each with a comma before it, as in `,"events":{}`; "" for none
	Methods    map[string]ExtensionMethod
}

// An ExtensionMethod serves a request. ctx is that of the HTTP request. It also ends when the client cancels the request. The
// result is a JSON object.
type ExtensionMethod func(ctx context.Context, r *ExtensionRequest) (result []byte, f *Fault)

// A Fault is a JSON-RPC error. Its Status is that of HTTP, usually 200.
type Fault = protocol.Fault

// An ExtensionRequest is a request for a method of an Extension.
type ExtensionRequest struct {
	Site    *Site  // the caller
	Params  []byte // a JSON object, which must not be used after the method has returned; nil for none
	request *request
}

// Stream makes the response an event stream, and calls serve, which sends notifications. params are the members of their params;
// the id of the subscription, which is that of the request, is added. The context of serve also ends when the server closes, and
// when the credentials of the request expire. The result follows when serve has returned.
func (r *ExtensionRequest) Stream(serve func(ctx context.Context, send func(method string, params []byte) error)) *Fault {
	watch, leave, f := openWatch(r.request, 0)
	if f != nil {
		return f
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.request.ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() { watch.Run(ctx); cancel() })
	serve(ctx, func(method string, params []byte) error { return watch.Out.Send(watch.Notification(method, params)) })
	return nil
}

// serve calls the method and writes its result.
func (m ExtensionMethod) serve(q *request, w *response) *protocol.Fault {
	result, f := m(q.ctx, &ExtensionRequest{q.site, q.params.raw, q})
	if f == nil {
		b := append(w.result("complete", nil), result[1:len(result)-1]...)
		w.end(bytes.TrimSuffix(b, []byte{','})) // of an empty result
	}
	return f
}
