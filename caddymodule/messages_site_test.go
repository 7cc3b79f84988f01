package caddymodule_test

import (
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestMessages_of_wrong_configurations wants errors that say what to write, without secrets.
func TestMessages_of_wrong_configurations(t *testing.T) {
	for name, c := range map[string]struct{ caddyfile, want, not string }{
		"a toolset of two documents":  {"{\nagents {\ntoolset t a.yaml b.yaml\n}\n}\n", "takes one document", ""},
		"a header line as credential": {"{\nagents {\ntoolset t a.yaml {\ncredential \"Authorization: Bearer s3cret\"\n}\n}\n}\n", "credential header Authorization \"Bearer {env.API_TOKEN}\"", "s3cret"},
		"agents_health with options":  {":80 {\nagents_health {\npath /up\n}\n}\n", "unrecognized agents_health", ""},
		"agents_health with two":      {":80 {\nagents_health /up /down\n}\n", "wrong argument count", ""},
		"three secrets":               {":80 {\nmcp /mcp t.yaml {\nsecret a b c\n}\n}\n", "secret takes", ""},
		"an empty secret":             {":80 {\nmcp /mcp t.yaml {\nsecret \"\" b\n}\n}\n", "empty", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := sitetest.Adapt(c.caddyfile)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.not != "" && strings.Contains(err.Error(), c.not) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestReviews_without_login warns of reviewers who cannot log in.
func TestReviews_without_login(t *testing.T) {
	const warning = "reviewers cannot log in"
	for _, c := range []struct {
		name, login string
		warned      bool
	}{{"no login", "", true}, {"login", sitetest.WithLogin, false}} {
		t.Run(c.name, func(t *testing.T) {
			s := sitetest.NewSite(t)
			s.Write("clerk.yaml", `kind: "openagentspec:v1/agent"
name: clerk
description: Books trips.
intent: clerk
owner: tests
capabilities:
  get-trip: {input_restriction: {require_review: grace}}
`)
			s.Start("", c.login+"mcp /mcp TRIPS\noagent DIR/clerk.yaml {\ntoolset TRIPS\nreviews /reviews\n}\nrespond API")
			if warned := strings.Contains(s.Log(), warning); warned != c.warned {
				t.Errorf("warned: %t, want %t\n%s", warned, c.warned, s.Log())
			}
		})
	}
}

// TestMCP_secret_rotation keeps sessions while the secret changes in three steps.
func TestMCP_secret_rotation(t *testing.T) {
	const older, newer = "older-secret-of-16", "newer-secret-of-16"
	s := sitetest.Run(t, "", "mcp /mcp TRIPS {\nsecret "+older+"\n}\nrespond ok")
	session := s.Begin("/mcp")
	for _, step := range []struct {
		secret string
		want   int
	}{{older + " " + newer, 200}, {newer + " " + older, 200}, {newer, 404}} {
		if err := s.Load("", "mcp /mcp TRIPS {\nsecret "+step.secret+"\n}\nrespond ok"); err != nil {
			t.Fatal(err)
		}
		if status := sitetest.SessionsOf(s).Ping("/mcp", session); status != step.want {
			t.Errorf("secret %s: status %d, want %d", step.secret, status, step.want)
		}
	}
}

// TestMCP_tasks_without_secret warns if nodes share a store and not the key of tasks.
func TestMCP_tasks_without_secret(t *testing.T) {
	for _, c := range []struct {
		name, store, options string
		warned               bool
	}{
		{"shared store", "store redis redis://127.0.0.1:1/0", "task_after 1s", true},
		{"shared store and secret", "store redis redis://127.0.0.1:1/0", "task_after 1s\nsecret 0123456789abcdef", false},
		{"no tasks", "store redis redis://127.0.0.1:1/0", "", false},
		{"own store", "", "task_after 1s", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sitetest.Run(t, "agents {\n"+c.store+"\n}", "mcp /mcp TRIPS {\n"+c.options+"\n}\nrespond ok")
			if warned := strings.Contains(s.Log(), "without a secret, only the node"); warned != c.warned {
				t.Errorf("warned: %t, want %t", warned, c.warned)
			}
		})
	}
}
