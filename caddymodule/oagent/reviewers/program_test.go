package reviewers

import (
	"strings"
	"testing"
)

// TestReviewerAnswer wants only what is clear to be a decision.
func TestReviewerAnswer(t *testing.T) {
	for body, wanted := range map[string]Answer{
		`{"decision":"approve"}`:                         {Decision: "approve"},
		" {\"comment\":\"no\",\n\"decision\":\"deny\"} ": {Decision: "deny", Comment: "no"},
		`{"decision":"pending","comment":"later"}`:       {Decision: "pending", Comment: "later"},
	} {
		if answer, err := readAnswer([]byte(body)); err != nil || *answer != wanted {
			t.Errorf("%s: %+v, %v", body, answer, err)
		}
	}
	for name, body := range map[string]string{
		"nothing":          "",
		"null":             "null",
		"a word":           `"approve"`,
		"an array":         `[{"decision":"approve"}]`,
		"another case":     `{"Decision":"approve"}`,
		"another decision": `{"decision":"Approve"}`,
		"no decision":      `{"comment":"approve"}`,
		"an empty one":     `{"decision":""}`,
		"a truth":          `{"decision":true}`,
		"two decisions":    `{"decision":"approve","decision":"deny"}`,
		"more":             `{"decision":"approve","unless":"it rains"}`,
		"two objects":      `{"decision":"approve"}{"decision":"deny"}`,
		"cut off":          `{"decision":"approve"`,
		"a null comment":   `{"decision":"approve","comment":null}`,
		"a long comment":   `{"decision":"approve","comment":"` + strings.Repeat("x", 2001) + `"}`,
		"no UTF-8":         "{\"decision\":\"approve\",\"comment\":\"\xff\"}",
	} {
		answer, err := readAnswer([]byte(body))
		if err == nil {
			t.Errorf("%s: %+v", name, answer)
		} else if strings.Contains(err.Error(), "rains") {
			t.Errorf("the error quotes the answer: %v", err)
		}
	}
}
