package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/internal/text"
)

// approval is a request to approve tools that differ from the lock.
type approval struct {
	Seen  string   `json:"seen"`            // lock_digest of the changes that the user has read
	Tools []string `json:"tools,omitempty"` // names; none for all changes
}

// serveApproval approves changed tools of a toolset: POST approve/{endpoint}/{position of the toolset}. It is for auditors. The lock
// file is the only thing that it changes.
func serveApproval(s *siteOf, q *request) (*page, error) {
	if len(q.rest) != 3 || q.Method != http.MethodPost || !q.viewer.Auditor {
		return nil, errNotFound
	}
	e, ok := s.endpoint(q.rest[1])
	n, err := strconv.Atoi(q.rest[2])
	if !ok || err != nil || n < 0 || n >= len(e.Parts.All) {
		return nil, errNotFound
	}
	wanted, err := readApproval(q)
	if err != nil {
		return nil, err
	}
	toolset := e.Parts.All[n].Toolset
	user := q.viewer.User
	if user == "" {
		user = "(a user of this machine)"
	}
	approved, err := toolset.Approve(user, wanted.Seen, wanted.Tools...)
	switch {
	case errors.Is(err, app.ErrChangedSince):
		return nil, &failure{http.StatusConflict, "The tools have changed again", "Open the list of tools again and read the differences as they are now. Nothing was approved."}
	case err != nil:
		s.logger.Error("approving tools failed", zap.String("user", user), zap.String("toolset", toolset.Name), zap.Error(err))
		return nil, &failure{http.StatusInternalServerError, "The lock file was not written", text.Cut(err.Error(), maxFault) + ". Approve with: " + app.LockCommand(toolset.Key)}
	}
	query := url.Values{"endpoint": {e.id}, "approved": {strconv.Itoa(approved)}}
	return &page{redirect: s.base + "/tools?" + query.Encode(), model: map[string]int{"approved": approved}}, nil
}

// readApproval reads a form, or the request of a program.
func readApproval(q *request) (*approval, error) {
	wanted := new(approval)
	if err := q.readBody(wanted, `{"seen": "…", "tools": ["list_trips"]}`); err != nil || q.api {
		return wanted, err
	}
	wanted.Seen = q.PostForm.Get("seen")
	if q.PostForm.Get("all") == "" {
		if wanted.Tools = q.PostForm["tool"]; len(wanted.Tools) == 0 {
			return nil, &failure{http.StatusBadRequest, "Nothing is selected", "Select the tools to approve."}
		}
	}
	return wanted, nil
}
