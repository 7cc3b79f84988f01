package login_test

import (
	"slices"
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule"
	"github.com/fairwayhq/fairway/internal/audit"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }

// TestAudit_logins_are_archived logs in ann, who may, and bob, who may not.
func TestAudit_logins_are_archived(t *testing.T) {
	s := sitetest.NewSite(t)
	p := sitetest.NewProvider(t, s)
	s.Start("agents {\n\tstore bolt DIR/store.db\n\taudit {\nsink file DIR/audit.jsonl\n}\n}", p.AgentLogin("allow user ann")+"agent_auth\nmcp TRIPS")
	p.Login("ann", "")
	if back, answer := p.Consent("bob", ""); back == nil || back.Query().Get("error") != "access_denied" {
		t.Errorf("the login of bob ends at %v: %s", back, answer)
	}
	sitetest.Eventually(t, "both logins in the archive", func() bool {
		all := sitetest.Archived(s)
		has := func(event, user string) bool {
			return slices.ContainsFunc(all, func(e audit.Entry) bool { return e.Type == audit.TypeLogin && e.Event == event && e.User == user })
		}
		return has("logged_in", "ann") && has("denied", "bob")
	})
}
