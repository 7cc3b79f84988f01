package otcadapter

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
)

// GET /tools returns all tools, as OTC 1.0 says. As an extension, clients may ask for a part of them:
//
//	GET /tools?limit=100             a page
//	GET /tools?limit=100&cursor=…    the next page; the Link header of the previous one has its URL
//	GET /tools?query=refund+a+charge the tools that fit the query, best first
//
// A part has the same form as the whole list.

// Limits of the query parameters.
const (
	maxPage      = 1000 // tools of a page
	defaultFound = 10   // tools that a query finds, unless the client gives a limit
	maxFound     = 100  // tools that a query finds
	maxQuery     = 1000 // bytes of a query
)

// definedTool is a tool of the list, with its definitions in both forms.
type definedTool struct {
	id       string
	otc, oxp []byte // parts of catalog.list
}

// listPart is the part of the list that a request asks for.
type listPart struct {
	query  string
	limit  int // 0 for the default
	cursor string
}

// readListPart reads the query parameters of GET /tools. It ignores unknown ones. whole is true if the
// request is for all tools.
func readListPart(raw string) (part listPart, whole bool, f *fault) {
	if raw == "" {
		return part, true, nil
	}
	parameters, err := url.ParseQuery(raw)
	if err != nil {
		return part, false, badRequest("the query of the URL cannot be read; escape its special characters")
	}
	for _, name := range []string{"query", "limit", "cursor"} {
		if len(parameters[name]) > 1 {
			return part, false, badRequest(name + " is given twice in the URL; give it once")
		}
	}
	part.query, part.cursor = strings.TrimSpace(parameters.Get("query")), parameters.Get("cursor")
	most := maxPage
	switch {
	case parameters.Has("query") && part.query == "":
		return part, false, badRequest("query is empty; describe what the tool should do, as in ?query=cancel+a+booking")
	case len(part.query) > maxQuery:
		return part, false, badRequest("query has more than " + strconv.Itoa(maxQuery) + " bytes; describe what the tool should do in a few words")
	case part.query != "" && part.cursor != "":
		return part, false, badRequest("query and cursor cannot be combined; raise limit to find more tools")
	case part.query != "":
		part.limit, most = defaultFound, maxFound
	}
	if limit := parameters.Get("limit"); parameters.Has("limit") {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > most {
			return part, false, badRequest("limit " + quoted(limit) + " is not valid; use a number from 1 to " + strconv.Itoa(most))
		}
		part.limit = n
	}
	return part, part == listPart{}, nil
}

// part returns the tools of a part of the list, and the cursor of the next page, "" if there is none.
func (c *catalog) part(p listPart) (toolset []*definedTool, next string, f *fault) {
	if p.query != "" {
		return c.find(p.query, p.limit), "", nil
	}
	from := 0
	if p.cursor != "" {
		var ok bool
		if from, ok = c.readCursor(p.cursor); !ok {
			return nil, "", badRequest("cursor " + quoted(p.cursor) + " is not of this list, or the tools have changed since; list the tools again without a cursor")
		}
	}
	to := len(c.defined)
	if p.limit > 0 && p.limit < to-from {
		to = from + p.limit
		next = c.cursor(to)
	}
	return c.defined[from:to], next, nil
}

// find returns the tools that fit the query. If there are several toolkits, it takes the best tool of
// each, then the second of each, and so on.
func (c *catalog) find(query string, limit int) []*definedTool {
	type ranked struct {
		rank int
		tool *definedTool
	}
	var found []ranked
	for _, k := range c.toolkits {
		all := func(*tools.Tool) bool { return true }
		for rank, t := range c.source[k.index].Tools.Find(query, limit, all) {
			if d := c.byID[string(k.appendID(nil, t.Name))]; d != nil {
				found = append(found, ranked{rank, d})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	toolset := make([]*definedTool, min(len(found), limit))
	for i := range toolset {
		toolset[i] = found[i].tool
	}
	return toolset
}

// What precedes the definitions in each form.
const (
	listStart  = `{"$schema":"` + otcSchema + `","tools":[`
	itemsStart = `,"items":[`
)

// appendList appends the response with these tools.
func appendList(b []byte, toolset []*definedTool) []byte {
	b = append(b, listStart...)
	for _, t := range toolset {
		b = append(strictjson.Comma(b), t.otc...)
	}
	b = append(append(b, ']'), itemsStart...)
	for _, t := range toolset {
		b = append(strictjson.Comma(b), t.oxp...)
	}
	return append(b, "]}"...)
}

// serveToolsPart responds with a part of the list.
func (s *Server) serveToolsPart(w http.ResponseWriter, c *catalog, p listPart) {
	toolset, next, f := c.part(p)
	if f != nil {
		s.writeFault(w, f, otcStandard)
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "no-cache")
	if next != "" {
		header.Set("Link", "<?"+url.Values{"limit": {strconv.Itoa(p.limit)}, "cursor": {next}}.Encode()+`>; rel="next"`)
	}
	writeJSON(w, http.StatusOK, appendList(nil, toolset))
}

// cursor returns the cursor of the page that begins at a tool. It is valid for this list only.
func (c *catalog) cursor(from int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(c.listTag + strconv.Itoa(from)))
}

// readCursor is the inverse of cursor.
func (c *catalog) readCursor(cursor string) (from int, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text.Cut(cursor, 2*len(c.listTag)+16))
	if err != nil {
		return 0, false
	}
	number, of := strings.CutPrefix(string(raw), c.listTag)
	from, err = strconv.Atoi(number)
	return from, of && err == nil && from > 0 && from < len(c.defined)
}
