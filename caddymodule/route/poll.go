package route

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/security"
)

// An API may respond to a call with 202 and a Location, at which it reports the progress of the work. A
// poller requests that Location with GET until the response is no longer a 202. That response is then the
// response to the call.
//
// Each poll is an ordinary request to the handlers after the endpoint, with the credentials of the caller
// who polls. If the Location matches a GET operation of the toolset, the poll is a call of that operation.
// Therefore a guard applies its rules for that operation, and rejects other locations.

const (
	pollInterval    = time.Second     // between polls, if the API sends no Retry-After
	minPollInterval = time.Second     // minimum, even if the API requests a shorter one
	maxPollInterval = 5 * time.Minute // maximum, even if the API requests a longer one
	maxPolls        = 10_000          // of one call
	maxPollFailures = 5               // consecutive polls that could not be made, or whose credentials were rejected
	maxPollHops     = 5               // redirects of one poll
	maxPollTarget   = 2 << 10         // bytes of a Location
)

// pollState is the state of polling for work that a 202 announced.
type pollState struct {
	target   string        // escaped path and query
	after    time.Duration // delay before the next poll
	count    int           // polls so far
	failures int           // consecutive failed polls
}

// pollHandle is the prefix of the handle of a pollState.
const pollHandle = "poll"

func (s *pollState) handle() string {
	return fmt.Sprintf("%s %d %d %s", pollHandle, s.count, s.failures, s.target)
}

// readPollHandle parses the result of handle.
func readPollHandle(handle string) (s pollState, ok bool) {
	words := strings.SplitN(handle, " ", 4)
	if len(words) != 4 || words[0] != pollHandle {
		return s, false
	}
	var errCount, errFailures error
	s.count, errCount = strconv.Atoi(words[1])
	s.failures, errFailures = strconv.Atoi(words[2])
	s.target = words[3]
	return s, errCount == nil && errFailures == nil
}

// pending returns the result of a call whose work has not ended.
func (s *pollState) pending() *tools.Result {
	return &tools.Result{Status: http.StatusAccepted, Header: make(http.Header), Pending: &tools.Pending{
		Handle: s.handle(), After: s.after, Message: "the API is still working on this call",
	}}
}

// poller is one call that may be polled.
type poller struct {
	caller *Caller
	call   *tools.Call
}

// invoke makes the call, or polls for its outcome if the context has a handle.
func (p *poller) invoke(ctx context.Context) (*tools.Result, error) {
	lasting, later := tools.LongRunningFromContext(ctx)
	var state pollState
	if lasting.Handle != "" {
		var ok bool
		if state, ok = readPollHandle(lasting.Handle); !ok {
			return nil, &tools.Failure{Kind: tools.Internal, Message: "the call cannot be continued: its handle does not belong to a call of " + p.call.Tool.Name}
		}
		if lasting.Cancel {
			return &tools.Result{Status: http.StatusNoContent, Header: make(http.Header)}, nil
		}
	} else {
		result, err := p.caller.dispatch.Invoke(ctx, p.call)
		if err != nil || result.Status != http.StatusAccepted || !p.follow(result, &state) {
			return result, err
		}
		result.Release()
		if later {
			return state.pending(), nil
		}
	}
	for end := time.Now().Add(p.caller.endpoint.Polling); ; {
		if !later {
			if err := p.wait(ctx, &state, end); err != nil {
				return nil, err
			}
		}
		result, err := p.poll(ctx, &state)
		if result != nil || err != nil {
			return result, err
		}
		if later {
			return state.pending(), nil
		}
	}
}

// wait waits until the next poll, and reports progress.
func (p *poller) wait(ctx context.Context, s *pollState, end time.Time) error {
	if listener := tools.ListenerFromContext(ctx); listener != nil {
		listener(tools.Event{Kind: tools.EventProgress, Progress: strconv.AppendInt(nil, int64(s.count), 10), Message: "waiting for the API"})
	}
	if time.Now().Add(s.after).After(end) {
		return &tools.Failure{Kind: tools.TimedOut, Message: fmt.Sprintf(
			"%s was accepted, but its work did not end within %s; %s", p.call.Tool.Operation(), p.caller.endpoint.Polling, retryAdvice(p.call.Tool.Operation()))}
	}
	select {
	case <-time.After(s.after):
		return nil
	case <-ctx.Done():
		return &tools.Failure{Kind: tools.Canceled, Message: p.call.Tool.Operation() + " was canceled while the API worked on it"}
	}
}

// poll requests the state of the work once. It returns neither a result nor an error if the work has not
// ended.
func (p *poller) poll(ctx context.Context, s *pollState) (*tools.Result, error) {
	if s.count++; s.count > maxPolls {
		return nil, &tools.Failure{Kind: tools.TimedOut, Message: fmt.Sprintf(
			"%s was accepted, but its work did not end within %d polls; %s", p.call.Tool.Operation(), maxPolls, retryAdvice(p.call.Tool.Operation()))}
	}
	for range maxPollHops {
		result, err := p.get(ctx, s.target)
		if err != nil {
			return nil, p.pollFailed(ctx, s, err)
		}
		if result.Status == http.StatusUnauthorized && s.failures+1 < maxPollFailures {
			s.failures++ // the token may have expired; a later request may have a new one
			s.after = pollInterval
			result.Release()
			return nil, nil //nolint:nilnil // documented
		}
		s.failures = 0
		switch result.Status {
		case http.StatusAccepted:
			if !p.follow(result, s) { // the Location stays the same
				s.after = pollDelay(result.Header)
			}
			result.Release()
			return nil, nil //nolint:nilnil // documented
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			if result.Header.Get("Retry-After") == "" {
				return result, nil
			}
			s.after = pollDelay(result.Header)
			result.Release()
			return nil, nil //nolint:nilnil // documented
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
			if !p.follow(result, s) {
				return result, nil
			}
			result.Release()
		default:
			return result, nil
		}
	}
	return nil, &tools.Failure{Kind: tools.Redirected, Message: fmt.Sprintf("%s was accepted, but the address of its result redirects more than %d times; the operator must check the API",
		p.call.Tool.Operation(), maxPollHops)}
}

// pollFailed handles an error of a poll. It returns nil if the poll can be repeated, because the API could
// not be reached.
func (p *poller) pollFailed(ctx context.Context, s *pollState, err error) error {
	var failure *tools.Failure
	if !errors.As(err, &failure) || ctx.Err() != nil || failure.Kind != tools.Unreachable && failure.Kind != tools.TimedOut {
		return err
	}
	if s.failures++; s.failures >= maxPollFailures {
		return err
	}
	s.after = pollInterval
	return nil
}

// follow sets the target of s to the Location of a response. It returns false if there is none, or if
// it is not at the API.
func (p *poller) follow(r *tools.Result, s *pollState) bool {
	locations := r.Header["Location"]
	if len(locations) != 1 || locations[0] == "" || len(locations[0]) > maxPollTarget {
		return false
	}
	base := s.target
	if base == "" {
		path, err := p.call.Path()
		if err != nil {
			return false
		}
		base = path
	}
	target, ok := sameOriginTarget(base, locations[0], p.caller.client.Request.Host, p.toolsetOfCall().Origin)
	if ok {
		s.target, s.after = target, pollDelay(r.Header)
	}
	return ok
}

// sameOriginTarget returns the escaped path and query of a Location. Ok is false if its origin is neither
// the site's host nor the server of the document.
func sameOriginTarget(base, location, host, origin string) (target string, ok bool) {
	from, err := url.Parse(base)
	if err != nil {
		return "", false
	}
	u, err := url.Parse(location)
	if err != nil || u.User != nil || u.Opaque != "" || u.Scheme != "" && u.Host == "" {
		return "", false
	}
	client := u.Scheme == "" || u.Scheme == "http" || u.Scheme == "https"
	if u.Host != "" && !strings.EqualFold(u.Host, host) && (origin == "" || !strings.EqualFold(u.Scheme+"://"+u.Host, origin)) || !client {
		return "", false
	}
	u.Scheme, u.Host = "", ""
	to := from.ResolveReference(u)
	if !strings.HasPrefix(to.Path, "/") || strings.HasPrefix(to.Path, "//") {
		return "", false
	}
	to.Fragment, to.RawFragment = "", ""
	return to.RequestURI(), true
}

// pollDelay returns the delay before the next poll: the Retry-After of the API, within limits.
func pollDelay(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	if value == "" {
		return pollInterval
	}
	var delay time.Duration
	if seconds, err := strconv.Atoi(value); err == nil {
		delay = time.Duration(min(max(seconds, 0), int(maxPollInterval/time.Second))) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		delay = time.Until(date)
	}
	return min(max(delay, minPollInterval), maxPollInterval)
}

// get sends one poll through the handler chain.
func (p *poller) get(ctx context.Context, target string) (*tools.Result, error) {
	if p.caller.inspectors != nil {
		ctx = withoutReview(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	probe, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, &tools.Failure{Kind: tools.Internal, Message: p.call.Tool.Operation() + " was accepted, but the address of its result cannot be requested"}
	}
	if call := p.caller.part.polled.Of(p.toolsetOfCall()).CallOf(probe.URL); call != nil {
		return p.caller.dispatch.Invoke(ctx, call)
	}
	if p.caller.limits.Timeout > 0 {
		timer := time.AfterFunc(p.caller.limits.Timeout, func() { cancel(errCallTimeout) })
		defer timer.Stop()
	}
	var credentials *security.Supplement
	if len(p.caller.credentials) > 0 {
		if p.caller.credentials.IsPersonal() {
			ctx = p.caller.endpoint.contextWithCaller(ctx, p.caller.client.Request, p.call.Tool)
		}
		if credentials, err = p.caller.credentials.Current(ctx); err != nil {
			return nil, p.caller.missingCredentialFailure(p.call.Tool, err)
		}
	}
	rec := NewRecorder(http.MethodGet, p.caller.limits.MaxResponse, cancel)
	rec.callContext = tools.CallContext{Context: ctx, Call: p.call}
	rec.ClientRequest, rec.ToolsetCredentials = p.caller.client.Request, credentials
	if p.caller.inspectors != nil || p.caller.logOnly.Inspect != nil {
		rec.SetInspection(newInspection(ctx, &p.caller.dispatch, p.call.Tool))
	}
	probe.RequestURI = probe.URL.RequestURI()
	probe = p.caller.prepare(probe.WithContext(&rec.callContext), rec, p.call, true)
	if p.caller.traced {
		return p.caller.serveTraced(ctx, p.call, "", rec, probe)
	}
	err = Serve(p.caller.handlerChain(), rec, probe)
	return p.caller.conclude(ctx, p.call, rec, err)
}

// toolsetOfCall returns the toolset of the tool that is called.
func (p *poller) toolsetOfCall() *tools.Toolset {
	if p.caller.own != nil {
		return p.caller.own
	}
	return p.caller.tools
}
