package ocp

import (
	"net/http"
	"strings"

	"github.com/fairwayhq/fairway/internal/headerkind"
)

// checkHeaders returns an error if the API may get other headers than are read
// here.
func checkHeaders(request *http.Request, plan *requestPlan) error {
	for name, values := range request.Header {
		switch name {
		case "Connection":
			for _, value := range values {
				if err := checkConnection(value); err != nil {
					return err
				}
			}
		default:
			if meant := headerkind.Canonical(name); meant != name && plan.readsHeader(meant) {
				return refuseHeader(name, "is read by some servers as "+meant+": send that one")
			}
		}
	}
	for name := range request.Trailer {
		if meant := headerkind.Canonical(name); plan.readsHeader(meant) {
			return refuseHeader(name, "is behind the body, where some servers read it and others do not: send it before")
		}
	}
	return nil
}

// checkConnection refuses a Connection header that names others: each proxy takes
// those away (RFC 9110, section 7.6.1), and the API does not see them.
func checkConnection(value string) error {
	for option := range strings.SplitSeq(value, ",") {
		switch strings.ToLower(strings.Trim(option, " \t")) {
		case "", "close", "keep-alive", "proxy-connection", "te", "upgrade", "http2-settings":
		default:
			return refuseHeader("Connection", "has the header "+clip(strings.Trim(option, " \t"), maxProblem)+" taken away before the API sees it: leave that out")
		}
	}
	return nil
}

// readsHeader reports whether something is read from the header of that canonical
// name: an argument, or how the body is to be read.
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
	name = clip(name, maxProblem)
	return &RequestError{Kind: AmbiguousValue, In: InHeader, Name: name, Message: "the header " + name + " " + problem}
}
