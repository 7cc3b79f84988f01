package plainrequest

import (
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/httpheader"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// checkHeaders returns an error if the API may get other headers than this package reads.
func (p *requestPlan) checkHeaders(req *http.Request) error {
	for name, values := range req.Header {
		switch name {
		case "Connection":
			for _, value := range values {
				if err := checkConnection(value); err != nil {
					return err
				}
			}
		default:
			if meant := httpheader.Canonical(name); meant != name && p.readsHeader(meant) {
				return refuseHeader(name, "is read by some servers as "+meant+": send that header instead")
			}
		}
	}
	for name := range req.Trailer {
		if meant := httpheader.Canonical(name); p.readsHeader(meant) {
			return refuseHeader(name, "follows the body (a trailer), and only some servers read it there: send it before the body")
		}
	}
	return nil
}

// checkConnection rejects a Connection header that names other headers. Proxies remove the
// named headers (RFC 9110, section 7.6.1), so the API does not get them.
func checkConnection(value string) error {
	for option := range strings.SplitSeq(value, ",") {
		switch strings.ToLower(strings.Trim(option, " \t")) {
		case "", "close", "keep-alive", "proxy-connection", "te", "upgrade", "http2-settings":
		default:
			return refuseHeader("Connection", "names the header "+text.Cut(strings.Trim(option, " \t"), schema.MaxProblem)+", which a proxy would remove: omit that name")
		}
	}
	return nil
}

// readsHeader reports whether the header with that canonical name is read, for an argument
// or to read the body.
func (p *requestPlan) readsHeader(name string) bool {
	switch name {
	case "Content-Type", "Content-Encoding", "Content-Length", "Transfer-Encoding":
		return true
	case "Cookie":
		return p.readsCookies
	}
	_, known := p.headerNames[name]
	return known
}

func refuseHeader(name, problem string) error {
	name = text.Cut(name, schema.MaxProblem)
	return &match.RequestError{Kind: request.Ambiguous, In: tools.InHeader, Name: name, Message: "the header " + name + " " + problem}
}
