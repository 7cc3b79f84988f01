package hosted

import (
	"testing"

	"github.com/fairwayhq/fairway/internal/httpheader"
)

// TestIdentifying checks which headers may identify the user of a run.
func TestIdentifying(t *testing.T) {
	for name, want := range map[string]bool{
		"Cookie": true, "X-Forwarded-User": true, "x_forwarded_user": true, "REMOTE_USER": true, "X-Auth-Request-Email": true, "OCP-User": true,
		"Impersonate-Extra-scopes": true, "X-Authenticated-Userid": true, "X-User-Token": true, "X-Token-User": true, "Sudo": true,
		"User-Agent": false, "X-Forwarded-For": false, "X-Forwarded-Host": false, "Prefer": false, "Cf-Ray": false, "X-Request-Id": false,
		"OCP-Current-Goal": false, "Accept": false,
	} {
		if got := identifying.MatchString(httpheader.Canonical(name)); got != want {
			t.Errorf("%s identifies a user: %t", name, got)
		}
	}
}
