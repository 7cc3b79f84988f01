package enhance_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairwayhq/fairway/ocp/enhance"
)

// TestHostile puts work before an expression that must be cut off: each of these
// would take minutes, or all memory.
func TestHostile(t *testing.T) {
	loop := `lists.range(1000).map(a, lists.range(1000).map(b, lists.range(1000).map(c, a * b * c)))`
	doubling := `[[1]]` + strings.Repeat(`.map(x, x + x)`, 45)
	text := `["aaaaaaaaaaaaaaaa"]` + strings.Repeat(`.map(x, x + x)`, 45)
	for name, test := range map[string]struct {
		expression string
		want       []enhance.Reason
	}{
		"nested loops":       {loop, []enhance.Reason{enhance.Cost}},
		"doubled lists":      {doubling, []enhance.Reason{enhance.Cost}},
		"doubled and read":   {`(` + doubling + `)[0].exists(x, x == 2)`, []enhance.Reason{enhance.Cost}},
		"doubled text":       {text, []enhance.Reason{enhance.Cost, enhance.AddedSize}},
		"huge range":         {`lists.range(1000000000)`, []enhance.Reason{enhance.Failed}},
		"replace bomb":       {`response.body.a.replace("a", response.body.a)`, []enhance.Reason{enhance.Failed}},
		"join bomb":          {`response.body.l.join(response.body.a)`, []enhance.Reason{enhance.Failed}},
		"search bomb":        {`response.body.a.indexOf(response.body.a.substring(30000) + "b")`, nil},
		"distinct bomb":      {`response.body.n.distinct()`, []enhance.Reason{enhance.Failed}},
		"long list":          {`response.body.m.size()`, []enhance.Reason{enhance.Failed}},
		"long text":          {`response.body.t`, []enhance.Reason{enhance.Failed}},
		"regular expression": {`response.body.a.matches(response.body.re)`, []enhance.Reason{enhance.Failed}},
		"format":             {`"%.1000000f".format([1.5])`, []enhance.Reason{enhance.Failed}},
		"items and loops":    {`response.body.n.map(x, response.body.n.exists(y, y == -1))`, []enhance.Reason{enhance.Cost}},
	} {
		t.Run(name, func(t *testing.T) {
			var numbers []string
			for i := range 5000 {
				numbers = append(numbers, strings.Repeat("1", 1+i%7)+strings.Repeat("0", i%11)+strings.Repeat("2", i%3)+strings.Repeat("3", i%5))
			}
			body := `{"re":"(a{100}){10}b","a":"` + strings.Repeat("a", 60000) + `","l":[` + strings.Repeat(`"a",`, 9000) + `"a"],"n":[` + strings.Join(numbers, ",") +
				`],"m":[` + strings.Repeat("1,", 20000) + `1],"t":"` + strings.Repeat("t", 70<<10) + `"}`
			e, err := enhance.Compile([]enhance.Property{{Name: "p", Expression: test.expression}}, enhance.Options{Limits: enhance.Limits{Time: time.Minute}})
			if err != nil {
				return
			}
			_, outcome := e.Append(context.Background(), nil, []byte(body), exchange(t, planner()))
			if test.want == nil {
				if !outcome.Enhanced() {
					t.Errorf("%+v", outcome)
				}
				return
			}
			if slices.Contains(test.want, outcome.Reason) {
				return
			}
			t.Errorf("got %s (%.200v), want %v", outcome.Reason, outcome.Err, test.want)
		})
	}
}
