package tools

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/tools/build"
)

var update = flag.Bool("update", false, "rewrite the golden file of names")

// namedDocument returns a document with one operation, "run". Each parameter is "location name"; those in the location
// body are the properties of the body.
func namedDocument(arguments ...string) string {
	var parameters, properties []string
	path := "/a"
	for _, argument := range arguments {
		in, name, _ := strings.Cut(argument, " ")
		if in == "body" {
			properties = append(properties, fmt.Sprintf(`%q:{"type":"string","description":"About it."}`, name))
			continue
		}
		if in == "path" {
			path += "/{" + name + "}"
		}
		parameters = append(parameters, fmt.Sprintf(`{"name":%q,"in":%q,"required":%t,"description":"About it.","schema":{"type":"string"}}`, name, in, in == "path"))
	}
	body := ""
	if properties != nil {
		body = `,"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{` + strings.Join(properties, ",") + `}}}}}`
	}
	return `{"openapi":"3.1.0","info":{"title":"Names","version":"1"},"paths":{"` + path + `":{"post":{"operationId":"run","parameters":[` +
		strings.Join(parameters, ",") + `]` + body + `,"responses":{"200":{"description":"ok"}}}}}}`
}

// TestNames_of_arguments checks the names of the arguments of one operation, in the order of the list.
func TestNames_of_arguments(t *testing.T) {
	long, cut := strings.Repeat("n", build.MaxName+1), build.ShortenName(strings.Repeat("n", build.MaxName+1))
	for name, test := range map[string]struct{ document, want []string }{
		"unchanged":                 {[]string{"query filter[class]", "query ids[]", "header X-Request-ID", "body 2nd", "body $kind"}, []string{"filter_class", "ids", "X_Request_ID", "n2nd", "kind"}},
		"comparison":                {[]string{"query At<", "query At>", "query At"}, []string{"At_lt", "At_gt", "At"}},
		"comparison alone":          {[]string{"query size>="}, []string{"size_gte"}},
		"type parameter":            {[]string{"query Page<User>"}, []string{"Page_User"}},
		"comparison taken":          {[]string{"query At<", "query At_lt"}, []string{"query_At_lt", "At_lt"}},
		"exact comes later":         {[]string{"body user-id", "body user_id"}, []string{"user_dash_id", "user_id"}},
		"exact comes first":         {[]string{"body user_id", "body user-id"}, []string{"user_id", "body_user_id"}},
		"exact in a later location": {[]string{"path user-id", "query a.b", "header a_b", "body user_id"}, []string{"user_dash_id", "a_dot_b", "a_b", "user_id"}},
		"exact in each location":    {[]string{"path id", "query id", "body id"}, []string{"id", "query_id", "body_id"}},
		"generated is exact":        {[]string{"path id", "body id", "body body_id"}, []string{"id", "body_id_2", "body_id"}},
		"numbered is exact":         {[]string{"query a.b", "query a-b", "query a b", "query query_a_b_2"}, []string{"a_b", "query_a_b", "query_a_b_3", "query_a_b_2"}},
		"case":                      {[]string{"query ID", "query Id", "query id"}, []string{"ID", "Id", "id"}},
		"other alphabets":           {[]string{"query 姓名", "query größe", "query имя", "query user名", "query 用户_id"}, []string{"Xing_Ming", "grosse", "imia", "user_Ming", "Yong_Hu_id"}},
		"equal in Latin letters":    {[]string{"query 是", "query 市", "body 事"}, []string{"Shi", "query_Shi", "body_Shi"}},
		"Latin name is exact":       {[]string{"query 姓名", "query Xing_Ming"}, []string{"query_Xing_Ming", "Xing_Ming"}},
		"combining characters":      {[]string{"query re\u0301sume\u0301", "query résumé"}, []string{"resume", "query_resume"}},
		"nothing to spell":          {[]string{"query 😀", "query 🚀", "body ()"}, []string{"field_1", "field_2", "field_3"}},
		"field is exact":            {[]string{"query 😀", "body field_1", "body 🚀"}, []string{"field_2", "field_1", "field_3"}},
		"signs only":                {[]string{"query *", "query +", "body $"}, []string{"star", "plus", "dollar"}},
		"too long":                  {[]string{"query " + long, "query " + cut}, []string{build.ShortenName("query_" + cut)[:build.MaxName-2] + "_2", cut}},
		"whole body":                {[]string{"query body"}, []string{"body"}},
	} {
		t.Run(name, func(t *testing.T) {
			set := buildTools(t, namedDocument(test.document...), BuildOptions{})
			run, _ := set.Tool("run")
			var got []string
			for i, a := range run.Definition.Arguments {
				got = append(got, a.Name)
				_, own, _ := strings.Cut(test.document[i], " ")
				if len(a.Name) > build.MaxName {
					t.Errorf("%q is too long", a.Name)
				}
				for place, told := range map[string]string{"description": a.Description, "schema": string(a.Schema)} {
					if names := strings.Contains(told, "`"+own); names != (a.Name != own) || !strings.Contains(told, "About it.") {
						t.Errorf("the %s of %s is %s", place, a.Name, told)
					}
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestNames_keep_the_description_of_the_schema checks a parameter that has no description of its own.
func TestNames_keep_the_description_of_the_schema(t *testing.T) {
	document := strings.Replace(namedDocument("query at<"), `"description":"About it.","schema":{`, `"schema":{"description":"In the schema.",`, 1)
	run, _ := buildTools(t, document, BuildOptions{}).Tool("run")
	a := run.Definition.Arguments[0]
	for _, told := range []string{a.Description, string(a.Schema), string(run.Definition.InputSchema)} {
		if !strings.Contains(told, "`at<`: In the schema.") {
			t.Errorf("got %s", told)
		}
	}
}

// TestNames_reach_the_argument_that_has_them calls a tool with an exact name and with a rewritten one.
func TestNames_reach_the_argument_that_has_them(t *testing.T) {
	run, _ := buildTools(t, namedDocument("query At<", "query At>", "query At", "body user-id", "body user_id"), BuildOptions{}).Tool("run")
	for arguments, want := range map[string]string{
		`{"At":"1"}`:           "/a?At=1 ",
		`{"At_gt":"1"}`:        "/a?At%3E=1 ",
		`{"user_id":"u"}`:      `/a {"user_id":"u"}`,
		`{"user_dash_id":"u"}`: `/a {"user-id":"u"}`,
	} {
		call, err := run.Bind([]byte(arguments))
		if err != nil {
			t.Errorf("%s: %v", arguments, err)
			continue
		}
		request, err := call.Request(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var body []byte
		if request.Body != nil {
			body, _ = io.ReadAll(request.Body)
		}
		if got := request.URL.RequestURI() + " " + string(body); got != want {
			t.Errorf("%s: sent %s, want %s", arguments, got, want)
		}
	}
}

// purges has operations whose names become equal, two names without Latin letters, and none.
const purges = `{"openapi":"3.1.0","info":{"title":"Purges","version":"1"},"paths":{
	"/users":{"delete":{"operationId":"users.purge","parameters":[{"name":"at<","in":"query"},{"name":"at","in":"query"}]},"get":{"operationId":"users_purge"}},
	"/用户":{"post":{"operationId":"创建用户","summary":"Create"},"get":{}},
	"/b":{"post":{"operationId":"删除"}},"/events":{"get":{},"post":{"operationId":"get_events"},"put":{"operationId":"🎉"},"patch":{"operationId":"get_events"}}}}`

func TestNames_of_tools(t *testing.T) {
	set := buildTools(t, purges, BuildOptions{})
	want := map[string]string{
		"users_dot_purge": "DELETE /users", "users_purge": "GET /users", "Chuang_Jian_Yong_Hu": "POST /用户", "get_yong_hu": "GET /用户",
		"Shan_Chu": "POST /b", "get_get_events": "GET /events", "get_events": "POST /events", "put_events": "PUT /events", "get_events_3": "PATCH /events",
	}
	got := make(map[string]string)
	for _, tool := range set.Tools() {
		got[tool.Name] = tool.Operation()
		told := strings.Contains(tool.Definition.Description, "`"+tool.Definition.OperationID+"`")
		if want := slices.Contains([]string{"users.purge", "创建用户", "删除", "🎉"}, tool.Definition.OperationID) || tool.Name == "get_events_3"; told != want {
			t.Errorf("the description of %s is %s", tool.Name, tool.Definition.Description)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	again := buildTools(t, purges, BuildOptions{Reloaded: true})
	for i, tool := range again.Tools() {
		if tool.Name != set.Tools()[i].Name {
			t.Errorf("%s is %s after a reload", set.Tools()[i].Name, tool.Name)
		}
	}
}

// TestNames_select_the_operation_that_has_them checks filters and tool blocks with an exact name.
func TestNames_select_the_operation_that_has_them(t *testing.T) {
	for selected, want := range map[string]string{"users_purge": "GET", "users.purge": "DELETE", "users_dot_purge": "DELETE"} {
		chosen := []build.Selector{{By: "operation", Value: selected}}
		set := buildTools(t, purges, BuildOptions{Include: chosen, Shapes: []build.Shape{{Tool: selected, Rename: "chosen"}}})
		if all := set.Tools(); len(all) != 1 || all[0].Plan.Method != want || all[0].Name != "chosen" {
			t.Errorf("include and tool %s: %d tools", selected, len(all))
		}
		if left := buildTools(t, purges, BuildOptions{Exclude: chosen}); left.Report.Excluded != 1 {
			t.Errorf("exclude %s leaves out %d tools", selected, left.Report.Excluded)
		}
	}
}

// TestNames_of_earlier_versions checks that a configuration or a call with a former name gets the current one.
func TestNames_of_earlier_versions(t *testing.T) {
	built := func(o BuildOptions) string {
		_, err := Build([]byte(purges), o)
		return fmt.Sprint(err)
	}
	set := buildTools(t, purges, BuildOptions{NonInferrable: []string{"query_at"}})
	purge, _ := set.Tool("users_dot_purge")
	former := []build.Selector{{By: "operation", Value: "users_purge_2"}}
	argument := map[string]build.ArgumentShape{"query_at": {Description: "When"}}
	_, unknown := purge.Bind([]byte(`{"query_at":"1"}`))
	for place, test := range map[string]struct{ got, want string }{
		"include":                 {built(BuildOptions{Include: former}), "now named users_purge"},
		"exclude":                 {built(BuildOptions{Exclude: former}), "now named users_purge"},
		"tool":                    {built(BuildOptions{Shapes: []build.Shape{{Tool: "post", Title: "Create"}}}), "now named Chuang_Jian_Yong_Hu"},
		"argument":                {built(BuildOptions{Shapes: []build.Shape{{Tool: "users.purge", Arguments: argument}}}), "now named at"},
		"non-inferrable argument": {fmt.Sprint(set.Report.Warnings), "now named at"},
		"call":                    {set.Unknown("users_purge_2", func(*Tool) bool { return true }).Message, "users_purge"},
		"argument of a call":      {fmt.Sprint(unknown), "now named at"},
		"name in the document":    {purge.SuggestArgument("at<"), "at_lt"},
	} {
		if !strings.Contains(test.got, test.want) {
			t.Errorf("%s: got %s, want %q", place, test.got, test.want)
		}
	}
}

// TestNames_of_real_documents compares the names of all tools and arguments of each real document with
// testdata/names.golden: a hash of all names, and the names that lack something of those in the document. If a rule
// changes names on purpose, write the file again with -update and describe the change in docs/upgrade.md.
func TestNames_of_real_documents(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testkit.DocumentPath(t, "openapi"), "*.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	var got bytes.Buffer
	for _, file := range files {
		all, differing, arguments := sha256.New(), make(map[string]int), 0
		set := buildTools(t, string(testkit.ReadDocument(t, "openapi/"+filepath.Base(file))), BuildOptions{})
		for _, tool := range set.Tools() {
			fmt.Fprintln(all, tool.Operation(), tool.Name)
			if id := tool.Definition.OperationID; id != "" && tool.Name != build.SanitizeName(id) {
				differing[id+": tool "+tool.Name]++
			}
			for _, a := range tool.Definition.Arguments {
				arguments++
				fmt.Fprintln(all, a.In, a.WireName, a.Name)
				if a.WireName != "" && !strings.EqualFold(a.WireName, a.Name) {
					differing[a.WireName+": argument "+a.Name]++
				}
			}
		}
		fmt.Fprintf(&got, "%s: %d tools, %d arguments, names %x\n", filepath.Base(file), len(set.Tools()), arguments, all.Sum(nil)[:8])
		for _, line := range slices.Sorted(maps.Keys(differing)) {
			fmt.Fprintf(&got, "\t%s (%d)\n", line, differing[line])
		}
	}
	const golden = "testdata/names.golden"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the names of tools or arguments have changed:\n%s\nwant\n%s", got.Bytes(), want)
	}
}
