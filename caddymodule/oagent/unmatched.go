package oagent

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/ocp"
)

// maxHintSegments is the maximum number of path segments for which a hint is searched.
const maxHintSegments = 16

// maxHint is the maximum length of a path in a hint, in bytes.
const maxHint = 256

// refuseUnmatched refuses a request that matches no operation, or several.
func (p *passage) refuseUnmatched(err error) *refused {
	if ambiguous, ok := errors.AsType[*ocp.AmbiguousError](err); ok {
		return p.refuse(kindAmbiguous, 0, "", "the request was not passed on: "+ambiguous.Reason, err)
	}
	message := "the request was not passed on: it is none of the operations that the API's document declares, and only those can be judged"
	if meant := p.withEncodedSlash(); meant != "" {
		message += fmt.Sprintf("; a slash inside of a parameter is written %%2F, as in %s", text.Cut(meant, maxHint))
	}
	return p.refuse(kindUnknownOperation, 0, "", message, err)
}

// withEncodedSlash helps clients that forgot to encode a slash in a path parameter. It returns
// the path that matches an operation if consecutive slashes of the request's path are encoded,
// as few as possible. It returns "" if there is none.
func (p *passage) withEncodedSlash() string {
	segments := strings.Split(p.r.URL.EscapedPath(), "/")
	if len(segments)-1 > maxHintSegments {
		return ""
	}
	for slashes := 1; slashes < len(segments)-1; slashes++ {
		for first := 1; first+slashes < len(segments); first++ {
			behind := first + slashes + 1
			joined := strings.Join(segments[first:behind], "%2F")
			path := strings.Join(append(append(segments[:first:first], joined), segments[behind:]...), "/")
			if p.linked.Routes.Tool(p.r.Method, path) != nil && p.matches(path) {
				return path
			}
		}
	}
	return ""
}

// matches reports whether the request would match one operation at this escaped path.
func (p *passage) matches(path string) bool {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return false
	}
	r, u := p.r.WithContext(p.r.Context()), *p.r.URL
	u.Path, u.RawPath = plain, path
	r.URL = &u
	_, err = p.linked.Routes.Match(r)
	return err == nil
}
