package build

import (
	"testing"
)

func TestOfOperation(t *testing.T) {
	for _, c := range []struct {
		name, summary, description string
		writes                     bool
	}{
		{"auth_revoke", "", "Revokes a token.", true},
		{"auth_revoke", "", "", true},
		{"views.publish", "", "", true},
		{"files_remote_share", "", "Share a remote file into a channel.", true},
		{"connectCoreV1GetNamespacedPodExec", "", "connect GET requests to exec of Pod", true},
		{"/tokens/{id}/revoke", "", "", true},
		{"x", "", "<p>Deletes the thing.</p>", true},
		{"activity/check-repo-is-starred-by-authenticated-user", "Check if a repository is starred by the authenticated user", "", false},
		{"listRevoked", "", "", false},
		{"tokens_revoked_list", "", "List revoked tokens", false},
		{"admin_conversations_restrictAccess_listGroups", "", "List all IDP Groups linked to a channel", false},
		{"updates", "Updates of the system", "", true}, // the noun and the verb look alike
		{"orders", "Order details", "", false},
		{"tags", "Tag list", "", false},
		{"opening_hours", "Opening hours", "", false},
		{"settings", "Archived settings", "", false},
		{"watchPod", "", "watch changes to an object", false},
		{"", "", "", false},
	} {
		a := OperationActions(c.name, c.summary, c.description)
		if writes := a&Writes != 0 && a&Reads == 0; writes != c.writes {
			t.Errorf("%q, %q, %q: got %b, want a write: %t", c.name, c.summary, c.description, a, c.writes)
		}
	}
}
