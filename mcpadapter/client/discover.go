package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
)

const (
	maxPages      = 100      // of one list
	maxListed     = 5000     // items of one list
	maxListBytes  = 16 << 20 // bytes of one list
	listTimeout   = 30 * time.Second
	maxListCursor = 64 << 10 // bytes
	maxReason     = 400      // bytes of an error in a warning
)

// A Discovery is what a server offers.
type discovery struct {
	Info         jsontext.Value // serverInfo, or nil
	Instructions string
	Completions  bool // whether the server proposes values of arguments

	// As in the lists of the server.
	Tools, Resources, Templates, Prompts, Skills []jsontext.Value

	Warnings []string // what the gateway does not know, what of the lists was left out, and why
}

// Discover lists the tools. Header has the credentials of the gateway.
func (s *Server) Discover(ctx context.Context, header http.Header) (*discovery, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout+listTimeout)
	defer cancel()
	for repeated := false; ; repeated = true {
		opened, release, err := s.acquire(ctx, gateway, header)
		if err != nil {
			return nil, err
		}
		d := &discovery{Info: opened.info, Instructions: opened.instructions, Completions: strictjson.HasMember(opened.capabilities, "completions"), Warnings: slices.Clone(opened.warnings)}
		err = s.listAll(ctx, opened, header, d, repeated)
		release()
		if s.endedSession(err, opened) && !repeated {
			continue
		}
		return d, err
	}
}

// listAll sets the lists of a Discovery. If it is repeated in a new session, errors that could have meant the end of the
// old one belong to a list.
func (s *Server) listAll(ctx context.Context, opened *session, header http.Header, d *discovery, repeated bool) error {
	extensions := strictjson.MemberOf(opened.capabilities, "extensions")
	for _, list := range []struct {
		to             *[]jsontext.Value
		capabilities   jsontext.Value
		capability     string
		method, member string
	}{
		{&d.Tools, opened.capabilities, "tools", methodListTools, "tools"},
		{&d.Resources, opened.capabilities, "resources", methodListResources, "resources"},
		{&d.Templates, opened.capabilities, "resources", methodListTemplates, "resourceTemplates"},
		{&d.Prompts, opened.capabilities, "prompts", methodListPrompts, "prompts"},
		{&d.Skills, extensions, skills.Extension, methodListSkills, "skills"},
	} {
		declared, isTools := strictjson.HasMember(list.capabilities, list.capability), list.method == methodListTools
		if !declared && !isTools { // some servers have tools and do not declare them
			continue
		}
		items, err := s.list(ctx, opened, header, list.method, list.member)
		*list.to = items
		fault, _ := errors.AsType[*Error](err)
		_, unavailable := errors.AsType[*UnavailableError](err)
		switch {
		case err == nil, fault != nil && (fault.Code == codeMethodNotFound || !declared): // such as a server with resources and without templates
		case unavailable, errors.Is(err, errSessionGone) && !repeated, ctx.Err() != nil, isTools && len(items) == 0:
			return err
		default:
			d.Warnings = append(d.Warnings, fmt.Sprintf("%s of the MCP server is used only in part (%d items): %s", list.method, len(items), text.Cut(err.Error(), maxReason)))
		}
	}
	return nil
}

// endedSession reports whether an error means that a new session is needed, and drops the old one then. An error in the
// response to a request that the server has read may name the session: the next request gets a new one.
func (s *Server) endedSession(err error, opened *session) bool {
	unavailable, _ := errors.AsType[*UnavailableError](err)
	fault, _ := errors.AsType[*Error](err)
	lost := fault != nil && s.options.Command == nil && opened.link.isStateful() && isSessionError(fault)
	if _, isPipe := opened.link.(*pipe); !lost && !errors.Is(err, errSessionGone) && (unavailable == nil || !isPipe) {
		return false
	}
	s.drop(opened)
	return true
}

// list returns the items of all pages of a list. If there is an error, these are the items before it.
func (s *Server) list(ctx context.Context, opened *session, header http.Header, method, member string) (items []jsontext.Value, err error) {
	var cursor []byte
	followed := make(map[string]bool)
	for size, page := 0, 1; ; page++ {
		m, err := opened.link.exchange(ctx, opened.request(method, "", s.params(opened, cursor, nil), header), nil)
		switch {
		case err != nil:
			return items, err
		case m.fault != nil:
			return items, m.fault
		}
		listed := strictjson.MemberOf(m.result, member)
		if kind := listed.Kind(); kind != '[' && kind != 'n' && kind != 0 {
			return items, fmt.Errorf("%s is %s, not an array", member, strictjson.KindName(kind))
		}
		for walk := strictjson.Into(listed); walk.Next(); {
			if size += len(walk.Value); len(items) == maxListed || size > maxListBytes {
				return items, fmt.Errorf("it has more than %d items or %d bytes", maxListed, maxListBytes)
			}
			items = append(items, walk.Value)
		}
		switch next := strictjson.MemberOf(m.result, "nextCursor"); {
		case next == nil || next.Kind() == 'n':
			return items, nil
		case next.Kind() != '"':
			return items, fmt.Errorf("nextCursor is %s, not a string", strictjson.KindName(next.Kind()))
		case len(next) > maxListCursor:
			return items, fmt.Errorf("nextCursor has more than %d bytes", maxListCursor)
		case followed[string(next)]:
			return items, errors.New("nextCursor is the same as before, so the list has no end")
		case page == maxPages:
			return items, fmt.Errorf("it has more than %d pages", maxPages)
		default:
			followed[string(next)] = true
			cursor = append([]byte(`"cursor":`), next...)
		}
	}
}

// relisten is how long to wait before the gateway listens again.
const relisten = 10 * time.Second

// Watch calls changed when the server reports that one of its lists has changed, until ctx is done. Credentials returns
// those of the gateway, which may change with time.
func (s *Server) Watch(ctx context.Context, credentials func(context.Context) (http.Header, error), changed func()) {
	for ctx.Err() == nil {
		if header, err := credentials(ctx); err == nil {
			s.listen(ctx, header, changed)
		}
		_ = pause(ctx, relisten)
	}
}

// reportsChanges reports whether the server reports changes of a list.
func reportsChanges(capabilities jsontext.Value) bool {
	return slices.ContainsFunc([]string{"tools", "resources", "prompts"}, func(list string) bool {
		return strictjson.MemberOf(strictjson.MemberOf(capabilities, list), "listChanged").Kind() == 't'
	})
}

func (s *Server) listen(ctx context.Context, header http.Header, changed func()) {
	opened, release, err := s.acquire(ctx, gateway, header)
	if err != nil {
		return
	}
	release() // a link without calls may be closed; it is opened again by the next turn
	if !reportsChanges(opened.capabilities) {
		_ = pause(ctx, time.Hour)
		return
	}
	if opened.modern {
		q := opened.request(methodListen, "", s.params(opened, []byte(`"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"promptsListChanged":true}`), nil), header)
		receive := func(m message) {
			if isListChange(m.method) {
				changed()
			}
		}
		if p, ok := opened.link.(*pipe); ok {
			p.onChange(changed)
			receive = nil
		}
		_, err = opened.link.exchange(ctx, q, receive)
	} else {
		err = opened.link.listen(ctx, changed)
	}
	if err == nil && ctx.Err() == nil {
		_ = pause(ctx, time.Minute) // the server reports no changes
	}
}
