package plainrequest

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/match"
	"github.com/fairwayhq/fairway/tools/request"
)

// The members in the result of ReadRequest that hold what the document does not declare.
// They cannot collide with arguments, because no argument name begins with "_".
const (
	undeclaredQuery      = "_query" // {"name": ["value", …], …}
	undeclaredProperties = "_body"  // {"name": value, …}
)

// ReadRequest reads the arguments of a tool call back from a plain request: it is the
// inverse of Call.Request. Routes.Match must have returned the tool for the request. Body
// is the whole body, which the caller has read with a size limit.
//
// How values are read:
//
//   - Text is converted to the type in the argument's schema: a number, a boolean, an
//     array or an object. Text that does not fit is rejected and not kept as text.
//     Otherwise a rule such as seats != 5 would accept "05", which the API may read as 5.
//   - Lists are decoded before they are split, as servers do.
//   - Undeclared query parameters and body properties are collected in the members
//     undeclaredQuery and undeclaredProperties. If the body is declared to allow
//     additional properties, they become arguments, as in a call.
//   - Undeclared headers and cookies are skipped. So are the query parameters named in
//     credentials, which hold the caller's credentials, unless an argument has the same
//     name.
//
// ReadRequest rejects what servers may read in different ways:
//
//   - an undeclared name that some servers confuse with a declared one, because it differs
//     only in case or has brackets appended. A query name is compared with all arguments
//     of query, path and body, which many servers merge; a body name with those of query
//     and body;
//   - a name inside an argument that differs from another one only in case;
//   - a header that is removed on the way (Connection) or that follows the body
//     (trailers);
//   - a repeated parameter or JSON name;
//   - a body that is compressed, has another charset, or has a Content-Type that the
//     document does not declare.
//
// The result is an object, at least {}. It is not validated against the rest of the
// schema, such as bounds and required arguments. The error is a
// *match.RequestError.
func (r *Routes) ReadRequest(t *tools.Tool, req *http.Request, body []byte, credentials ...string) (arguments jsontext.Value, err error) {
	reader, err := r.planOf(t).readRequest(req, body, credentials...)
	if err != nil {
		return nil, err
	}
	return reader.result(), nil
}

// requestReader is one run of ReadRequest. It reads path, query, headers and cookies; a
// bodyReader reads the body.
type requestReader struct {
	*requestPlan
	request    *http.Request
	arguments  argumentObject
	undeclared undeclared
}

func (p *requestPlan) readRequest(req *http.Request, body []byte, credentials ...string) (*requestReader, error) {
	if p.tool.Definition.Unchecked {
		return nil, &match.RequestError{Kind: request.Unfit, Message: "plain requests of " + p.tool.Operation() + " cannot be checked, because its schema is too large: call it as a tool"}
	}
	r := &requestReader{requestPlan: p, request: req}
	r.arguments.text = append(make([]byte, 0, 256+len(body)), '{')
	err := r.readPath(req.URL.EscapedPath())
	if err == nil {
		err = r.readQuery(req.URL.RawQuery, credentials)
	}
	if err == nil {
		err = r.readHeaders()
	}
	if err == nil {
		err = r.readCookies()
	}
	if err == nil {
		b := bodyReader{r.requestPlan, req, &r.arguments, nil}
		err = b.read(body)
		r.undeclared.properties = b.undeclared
	}
	if err == nil {
		err = r.checkNames()
	}
	if err != nil {
		return nil, requestError(err)
	}
	return r, nil
}

// result returns the arguments and what the document does not declare.
func (r *requestReader) result() jsontext.Value {
	r.undeclared.appendTo(&r.arguments)
	return append(r.arguments.text, '}')
}

func (r *requestReader) readPath(path string) error {
	var onStack [8]string
	values, err := match.PathValues(r.tool, onStack[:0], path)
	if err != nil {
		return err
	}
	var readOnStack [8]int
	read := readOnStack[:0] // positions of the arguments that were read as values
	for _, part := range r.tool.Plan.Parts {
		if part.Literal != "" {
			continue
		}
		i, text := part.Argument, values[len(read)]
		if earlier := slices.Index(read, i); earlier >= 0 {
			if values[earlier] != text {
				return &match.RequestError{
					Kind: request.Ambiguous, In: tools.InPath, Name: r.declared[i].WireName,
					Message: "the path of " + r.tool.Operation() + " has the parameter " + r.declared[i].WireName + " several times: give it the same value each time",
				}
			}
			read = append(read, i)
			continue
		}
		read = append(read, i)
		mark, value := r.arguments.begin(r.declared[i].Name)
		r.arguments.text, err = r.encodings[i].Param.ReadPath(r.arguments.text, text, r.shapes[i])
		if err != nil {
			return err
		}
		r.arguments.end(mark, value)
	}
	return nil
}

func (r *requestReader) readQuery(query string, credentials []string) error {
	if query == "" {
		return nil
	}
	pairs, err := request.ParsePairs(make([]request.Pair, 0, strings.Count(query, "&")+1), request.Query, query)
	if err != nil {
		return err
	}
	if err := r.takeConstants(pairs); err != nil {
		return err
	}
	if err := r.takeFilled(pairs, tools.InQuery); err != nil {
		return err
	}
	if err := r.readPairs(pairs, r.query); err != nil {
		return err
	}
	for i := range pairs {
		if p := &pairs[i]; !p.Taken {
			if err := r.checkUndeclared(tools.InQuery, p.Name); err != nil {
				return err
			}
			p.Taken = slices.Contains(credentials, p.Name)
		}
	}
	r.undeclared.query = pairs
	return nil
}

func (r *requestReader) readPairs(pairs []request.Pair, arguments []int) (err error) {
	for _, i := range arguments {
		mark, value := r.arguments.begin(r.declared[i].Name)
		if r.arguments.text, err = r.encodings[i].Param.ReadPairs(r.arguments.text, pairs, r.shapes[i]); err != nil {
			return err
		}
		r.arguments.end(mark, value)
	}
	return nil
}

func (r *requestReader) readHeaders() (err error) {
	if err := r.checkHeaders(r.request); err != nil {
		return err
	}
	if err := r.checkFilledHeaders(r.request.Header); err != nil {
		return err
	}
	for _, i := range r.headers {
		a := &r.declared[i]
		mark, value := r.arguments.begin(a.Name)
		if r.arguments.text, err = r.encodings[i].Param.ReadHeader(r.arguments.text, r.request.Header[a.WireName], r.shapes[i]); err != nil {
			return err
		}
		r.arguments.end(mark, value)
	}
	return nil
}

func (r *requestReader) readCookies() error {
	if !r.readsCookies {
		return nil
	}
	var pairs []request.Pair
	for _, line := range r.request.Header["Cookie"] {
		var err error
		if pairs, err = request.ParseCookies(pairs, line); err != nil {
			return err
		}
	}
	if err := r.takeFilled(pairs, tools.InCookie); err != nil {
		return err
	}
	return r.readPairs(pairs, r.cookies)
}

// argumentObject is the JSON object of the arguments while it is written.
type argumentObject struct {
	text []byte // not closed yet
}

// begin starts the member of an argument. The caller then appends the value and calls end,
// which removes the member again if the value is empty.
func (a *argumentObject) begin(name string) (mark, value int) {
	mark = len(a.text)
	if mark > 1 {
		a.text = append(a.text, ',')
	}
	a.text = append(strictjson.AppendString(a.text, name), ':')
	return mark, len(a.text)
}

func (a *argumentObject) end(mark, value int) {
	if len(a.text) == value {
		a.text = a.text[:mark]
	}
}

// undeclared holds the parts of a request that the document does not declare.
type undeclared struct {
	query      []request.Pair // those that an argument has taken are declared
	properties []strictjson.Member
}

// appendTo adds the members undeclaredQuery and undeclaredProperties, if they are needed.
func (u *undeclared) appendTo(a *argumentObject) {
	u.appendQuery(a)
	if len(u.properties) > 0 {
		a.begin(undeclaredProperties)
		a.text = append(a.text, '{')
		for _, m := range u.properties {
			a.text = append(strictjson.AppendString(strictjson.Comma(a.text), m.Name), ':')
			a.text = append(a.text, m.Value...)
		}
		a.text = append(a.text, '}')
	}
}

// appendQuery appends the undeclared query parameters, with all values of a name in a
// list.
func (u *undeclared) appendQuery(a *argumentObject) {
	var names []string
	values := map[string][][]byte(nil)
	for i := range u.query {
		p := &u.query[i]
		if p.Taken {
			continue
		}
		if values == nil {
			values = make(map[string][][]byte)
		}
		if values[p.Name] == nil {
			names = append(names, p.Name)
		}
		values[p.Name] = append(values[p.Name], strictjson.AppendString(nil, p.Value))
	}
	if len(names) == 0 {
		return
	}
	a.begin(undeclaredQuery)
	a.text = append(a.text, '{')
	for _, name := range names {
		a.text = append(strictjson.AppendString(strictjson.Comma(a.text), name), ":["...)
		a.text = append(append(a.text, bytes.Join(values[name], []byte{','})...), ']')
	}
	a.text = append(a.text, '}')
}
