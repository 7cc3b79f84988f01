package openapi

import (
	"fmt"
	"strings"
	"testing"
)

// TestPath_every_operation_is_kept checks what is sent for the paths that documents
// have, allowed by OpenAPI or not.
func TestPath_every_operation_is_kept(t *testing.T) {
	const declared = `[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}},{"name":"q","in":"query","schema":{"type":"string"}}]`
	tests := []struct {
		path     string
		template string
		query    string   // constant
		want     []string // parameters
	}{
		{"/files/{id}", "/files/{id}", "", []string{"path id", "query q"}},
		{"/files/{id}#share", "/files/{id}", "", []string{"path id", "query q"}},
		{"/#Target=A.B", "/", "", []string{"query q"}},
		{"/files/{id}?a=b&c#x?y=z", "/files/{id}", "a=b&c", []string{"path id", "query q"}},
		{"/?method=a.b", "/", "method=a.b", []string{"query q"}},
		{"/files?key={id}", "/files", "", []string{"query key", "query q"}},
		{"/files?text={q}", "/files", "", []string{"query text"}},
		{"/files?q={q}&a=1", "/files", "a=1", []string{"query q"}},
		{"/files?f=is:{state}", "/files", "", []string{"query q", "query f"}},
		{"/files{?q,page*}", "/files", "", []string{"query q", "query page"}},
		{"/files/{id}{#part}", "/files/{id}", "", []string{"path id", "query q"}},
		{"/files/{id+}", "/files/{id}", "", []string{"path id", "query q"}},
		{"/files/{id:[0-9]{1,3}}/x", "/files/{id}/x", "", []string{"path id", "query q"}},
		{"/files/{id:[^?#]+}", "/files/{id}", "", []string{"path id", "query q"}},
		{"/files/{{id}}", "/files/{id}", "", []string{"path id", "query q"}},
		{"/files/{}", "/files/{parameter1}", "", []string{"query q", "path parameter1"}},
		{"/files/{b{id}}", "/files/%7Bb{id}%7D", "", []string{"path id", "query q"}},
		{"/files/{id}}", "/files/{id}%7D", "", []string{"path id", "query q"}},
		{"/files/{id", "/files/%7Bid", "", []string{"query q"}},
		{"files/{id}", "/files/{id}", "", []string{"path id", "query q"}},
		{"", "/", "", []string{"query q"}},
		{" /files/{id}\n", "/files/{id}", "", []string{"path id", "query q"}},
		{"https://api.example.com/files/{id}", "/files/{id}", "", []string{"path id", "query q"}},
		{"/./files/x/../{id}", "/files/{id}", "", []string{"path id", "query q"}},
		{"/files/{id}/%2e%2E", "/files/", "", []string{"query q"}},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			d := readText(t, fmt.Sprintf(`{"openapi":"3.0.3","info":{},"paths":{%s:{"get":{"parameters":%s}}}}`, Text(test.path).Raw(), declared))
			operations := d.Operations()
			if len(operations) != 1 || operations[0].Err != nil {
				t.Fatalf("got %+v", operations)
			}
			op := &operations[0]
			equal(t, "path", op.Path, test.path)
			equal(t, "template", op.Template, test.template)
			equal(t, "query", op.ConstantQuery, test.query)
			var names []string
			for _, p := range op.Parameters {
				names = append(names, p.In+" "+p.Name)
			}
			equal(t, "parameters", strings.Join(names, ", "), strings.Join(test.want, ", "))
		})
	}
}
