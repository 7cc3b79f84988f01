package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/mcpadapter/skills"
)

const (
	maxPages      = 100      // of one list
	maxListed     = 5000     // items of one list
	maxListBytes  = 16 << 20 // bytes of one list
	listTimeout   = 30 * time.Second
	maxListCursor = 4 << 10 // bytes
)

// A Discovery is what a server offers.
type Discovery struct {
	Info         jsontext.Value // serverInfo, or nil
	Instructions string
	Completions  bool // whether the server proposes values of arguments

	// As in the lists of the server.
	Tools, Resources, Templates, Prompts, Skills []jsontext.Value
}

// Discover lists the tools. Header has the credentials of the gateway.
func (s *Server) Discover(ctx context.Context, header http.Header) (*Discovery, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout+listTimeout)
	defer cancel()
	for repeated := false; ; repeated = true {
		opened, release, err := s.acquire(ctx, gateway, header)
		if err != nil {
			return nil, err
		}
		d := &Discovery{Info: opened.info, Instructions: opened.instructions, Completions: strictjson.HasMember(opened.capabilities, "completions")}
		err = s.listAll(ctx, opened, header, d)
		release()
		if s.endedSession(err, opened) && !repeated {
			continue
		}
		return d, err
	}
}

// listAll sets the lists of a Discovery.
func (s *Server) listAll(ctx context.Context, opened *session, header http.Header, d *Discovery) error {
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
		if !strictjson.HasMember(list.capabilities, list.capability) {
			continue
		}
		items, err := s.list(ctx, opened, header, list.method, list.member)
		if fault, ok := errors.AsType[*Error](err); ok && fault.Code == codeMethodNotFound {
			continue // such as a server with resources and without templates
		}
		if err != nil {
			return err
		}
		*list.to = items
	}
	return nil
}

// endedSession reports whether an error means that a new session is needed, and drops the old one then.
func (s *Server) endedSession(err error, opened *session) bool {
	unavailable, _ := errors.AsType[*UnavailableError](err)
	if _, isPipe := opened.link.(*pipe); !errors.Is(err, errSessionGone) && (unavailable == nil || !isPipe) {
		return false
	}
	s.drop(opened)
	return true
}

// list returns the items of all pages of a list.
func (s *Server) list(ctx context.Context, opened *session, header http.Header, method, member string) ([]jsontext.Value, error) {
	var items []jsontext.Value
	var cursor []byte
	for size, page := 0, 0; ; page++ {
		m, err := opened.link.exchange(ctx, opened.request(method, "", s.params(opened, cursor, nil), header), nil)
		switch {
		case err != nil:
			return nil, err
		case m.fault != nil:
			return nil, m.fault
		}
		for walk := strictjson.Into(strictjson.MemberOf(m.result, member)); walk.Next(); {
			size += len(walk.Value)
			items = append(items, walk.Value)
		}
		next := strictjson.MemberOf(m.result, "nextCursor")
		switch {
		case len(items) > maxListed || size > maxListBytes || page == maxPages:
			return nil, fmt.Errorf("%s of the MCP server has more than %d items, %d bytes or %d pages", method, maxListed, maxListBytes, maxPages)
		case next.Kind() != '"' || len(next) > maxListCursor:
			return items, nil
		}
		cursor = append([]byte(`"cursor":`), next...)
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
	for _, list := range []string{"tools", "resources", "prompts"} {
		if strictjson.MemberOf(strictjson.MemberOf(capabilities, list), "listChanged").Kind() == 't' {
			return true
		}
	}
	return false
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
