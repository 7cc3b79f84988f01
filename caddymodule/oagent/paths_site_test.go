package oagent_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// fragmentDocument has operations that share method and path.
const fragmentDocument = `openapi: 3.0.3
info: {title: Store, version: "1"}
paths:
  /#X-Amz-Target=Store.GetItem:
    post:
      operationId: GetItem
      parameters: [{name: X-Amz-Target, in: header, required: true, schema: {type: string, enum: [Store.GetItem]}}]
      requestBody: {content: {application/json: {schema: {type: object, properties: {Key: {type: string}}}}}}
      responses: {"200": {description: ok}}
  /#X-Amz-Target=Store.DeleteItem:
    post:
      operationId: DeleteItem
      parameters: [{name: X-Amz-Target, in: header, required: true, schema: {type: string, enum: [Store.DeleteItem]}}]
      requestBody: {content: {application/json: {schema: {type: object, properties: {Key: {type: string}}}}}}
      responses: {"200": {description: ok}}
  /rest/?method=photos.get:
    get: {operationId: getPhoto, responses: {"200": {description: ok}}}
  /rest/?method=photos.delete:
    get: {operationId: deletePhoto, responses: {"200": {description: ok}}}
  /files/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    put:
      operationId: updateFile
      requestBody: {content: {application/json: {schema: {type: object, properties: {name: {type: string}}}}}}
      responses: {"200": {description: ok}}
  /files/{id}#add_shared_link:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    put:
      operationId: addSharedLink
      requestBody: {content: {application/json: {schema: {type: object, properties: {link: {type: string}}}}}}
      responses: {"200": {description: ok}}
  /objects/{key}:
    parameters: [{name: key, in: path, required: true, schema: {type: string}}]
    put: {operationId: putObject, responses: {"200": {description: ok}}}
  /objects/{key}?acl:
    parameters: [{name: key, in: path, required: true, schema: {type: string}}]
    put: {operationId: putAcl, responses: {"200": {description: ok}}}
`

// TestOAgent_no_bypass_by_fragment requests operations that are not allowed, by requests
// whose method and path are those of one that is.
func TestOAgent_no_bypass_by_fragment(t *testing.T) {
	var reached atomic.Int64
	s := sitetest.NewSite(t)
	s.Write("store.yaml", fragmentDocument)
	s.Write("agent.yaml", sitetest.AgentDocument("desk", "  get-item: {user_identity: false}\n  get-photo: {user_identity: false}\n"+
		"  add-shared-link: {user_identity: false}\n  put-object: {user_identity: false}\n"))
	s.Start("agents {\n\tstore bolt DIR/store.db\n}", "mcp DIR/store.yaml\notc DIR/store.yaml\noagent DIR/agent.yaml\nreverse_proxy "+
		sitetest.Upstream(t, func(w http.ResponseWriter, r *http.Request) {
			reached.Add(1)
			_, _ = io.WriteString(w, r.RequestURI+" "+r.Header.Get("X-Amz-Target"))
		}))
	called := func(t *testing.T, call func() string) (answer string, n int64) {
		before := reached.Load()
		answer = call()
		return answer, reached.Load() - before
	}
	target := func(lines ...string) string {
		return "X-Amz-Target: " + strings.Join(lines, "\r\nX-Amz-Target: ") + "\r\n"
	}
	for name, raw := range map[string]string{
		"another target":             sitetest.RawRequest("POST / HTTP/1.1", target("Store.DeleteItem"), ""),
		"no target":                  sitetest.RawRequest("POST / HTTP/1.1", "", ""),
		"two targets":                sitetest.RawRequest("POST / HTTP/1.1", target("Store.GetItem", "Store.DeleteItem"), ""),
		"a target of another case":   sitetest.RawRequest("POST / HTTP/1.1", target("store.deleteitem"), ""),
		"a target of a list":         sitetest.RawRequest("POST / HTTP/1.1", target("Store.GetItem, Store.DeleteItem"), ""),
		"a target that is dropped":   strings.Replace(sitetest.RawRequest("POST / HTTP/1.1", target("Store.GetItem"), ""), "Connection: close", "Connection: close, X-Amz-Target", 1),
		"another method":             sitetest.RawRequest("GET /rest/?method=photos.delete HTTP/1.1", "", ""),
		"two methods":                sitetest.RawRequest("GET /rest/?method=photos.get&method=photos.delete HTTP/1.1", "", ""),
		"two methods, one in a list": sitetest.RawRequest("GET /rest/?method=photos.get&method[]=photos.delete HTTP/1.1", "", ""),
		"two methods, in two cases":  sitetest.RawRequest("GET /rest/?method=photos.get&METHOD=photos.delete HTTP/1.1", "", ""),
		"methods by a semicolon":     sitetest.RawRequest("GET /rest/?method=photos.get;method=photos.delete HTTP/1.1", "", ""),
		"a fragment on the wire":     sitetest.RawRequest("GET /rest/?method=photos.delete#?method=photos.get HTTP/1.1", "", ""),
		"either of two":              sitetest.RawRequest("PUT /files/7 HTTP/1.1", "Content-Type: application/json\r\n", `{"link":"x"}`),
		"the other of two":           sitetest.RawRequest("PUT /files/7 HTTP/1.1", "Content-Type: application/json\r\n", `{"name":"x"}`),
		"a fragment of one of two":   sitetest.RawRequest("PUT /files/7#add_shared_link HTTP/1.1", "Content-Type: application/json\r\n", `{"name":"x"}`),
		"a query of another":         sitetest.RawRequest("PUT /objects/k?acl HTTP/1.1", "", ""),
		"a query, with a value":      sitetest.RawRequest("PUT /objects/k?acl=1 HTTP/1.1", "", ""),
		"a query, in another case":   sitetest.RawRequest("PUT /objects/k?Acl HTTP/1.1", "", ""),
		"a query, encoded":           sitetest.RawRequest("PUT /objects/k?%61cl HTTP/1.1", "", ""),
	} {
		t.Run(name, func(t *testing.T) {
			if answer, n := called(t, func() string { return s.With(t).Wire(raw) }); n != 0 {
				t.Errorf("the API was called: %.500s", answer)
			}
		})
	}
	for name, call := range map[string]func() string{
		"mcp/another tool":       func() string { return s.Do(s.CallRequest("DeleteItem", `{}`)).Body },
		"mcp/another tool's":     func() string { return s.Do(s.CallRequest("updateFile", `{"id":"7","name":"x"}`)).Body },
		"mcp/a property of both": func() string { return s.Do(s.CallRequest("addSharedLink", `{"id":"7","name":"x"}`)).Body },
		"otc/another tool": func() string {
			return s.Request("POST", "/otc/call", `{"request":{"tool_id":"Store.deletePhoto","input":{}}}`).Body
		},
		"otc/another value": func() string {
			return s.Request("POST", "/otc/call", `{"request":{"tool_id":"Store.GetItem","input":{"X_Amz_Target":"Store.DeleteItem"}}}`).Body
		},
	} {
		t.Run(name, func(t *testing.T) {
			if answer, n := called(t, call); n != 0 {
				t.Errorf("the API was called: %.500s", answer)
			}
		})
	}
	own := func(tool, arguments, header string) string {
		r := s.CallRequest(tool, arguments)
		r.Header["X-Amz-Target"] = []string{header}
		return s.Do(r).Body
	}
	for want, call := range map[string]func() string{
		"/ Store.GetItem":          func() string { return own("GetItem", `{"Key":"a"}`, "Store.DeleteItem") },
		"/rest/?method=photos.get": func() string { return s.Do(s.CallRequest("getPhoto", `{}`)).Body },
		"/files/7":                 func() string { return s.Do(s.CallRequest("addSharedLink", `{"id":"7","link":"x"}`)).Body },
		"/objects/k":               func() string { return s.Wire(sitetest.RawRequest("PUT /objects/k HTTP/1.1", "", "")) },
		"/ Store.GetItem ": func() string {
			return s.Wire(sitetest.RawRequest("POST / HTTP/1.1", target("Store.GetItem"), "")) + " "
		},
	} {
		t.Run(fmt.Sprintf("passes/%s", want), func(t *testing.T) {
			if answer, n := called(t, call); n != 1 || !strings.Contains(answer, want) {
				t.Errorf("the API was called %d times: %.500s", n, answer)
			}
		})
	}
}
