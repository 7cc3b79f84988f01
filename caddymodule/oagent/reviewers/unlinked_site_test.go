package reviewers_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestOptions_of_packages_that_are_not_linked checks that an option of a part that this test does not link is an error that names
// the package to build with, and that a misspelled option names none.
func TestOptions_of_packages_that_are_not_linked(t *testing.T) {
	for option, want := range map[string]string{
		"chat":                  "caddymodule/chat",
		"model scripted":        "caddymodule/hosted",
		"limits {\nturns 5\n}":  "caddymodule/hosted",
		"accept {\nby alice\n}": "caddymodule/hosted",
		"remote_agents a.b":     "caddymodule/hosted",
		"enagements /e":         "engagements",
	} {
		_, _, err := sitetest.Adapt(":80 {\n\toagent agents.yaml {\n\t\t" + option + "\n\t}\n}\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %s", option, err, want)
		}
	}
	module, err := caddy.GetModule("http.handlers.oagent")
	if err != nil {
		t.Fatal(err)
	}
	for option, want := range map[string]string{"chat": "caddymodule/chat", "models": "caddymodule/hosted", "agent_limits": "caddymodule/hosted", "modls": "unknown field"} {
		err := json.Unmarshal([]byte(`{"files":["a.yaml"],"`+option+`":{}}`), module.New())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("JSON %s: got %v, want an error with %s", option, err, want)
		}
	}
}
