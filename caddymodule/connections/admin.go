package connections

import (
	"encoding/json"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/internal/adminapi"
	"github.com/fairwayhq/fairway/caddymodule/site"
)

func init() {
	adminapi.Register("agents_connections", adminapi.Stream(http.MethodGet, "/agents/connections", serveAdmin))
}

// serveAdmin lists the connections of all users on Caddy's admin endpoint:
//
//	GET /agents/connections[?user=<id>]
//
// The response has one JSON object on a line for each account. It never has a token.
func serveAdmin(w http.ResponseWriter, r *http.Request) error {
	agents, err := adminapi.Running[*app.App]()
	if err != nil {
		return err
	}
	h, _ := agents.AccountsAt(site.Site{}).(*Handler)
	if h == nil {
		return errors.New("no site has the directive agent_connections")
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	user, encoder := r.URL.Query().Get("user"), json.NewEncoder(w)
	err = h.vault.all(r.Context(), func(found *record) bool {
		if user != "" && user != found.User {
			return true
		}
		for _, c := range found.connections() {
			if encoder.Encode(c) != nil {
				return false // the client has disconnected
			}
		}
		return true
	})
	if err != nil {
		h.logger.Error("the connections of users cannot be listed", zap.Error(err))
		panic(http.ErrAbortHandler) // the response may have begun; a complete one would pass for the whole list
	}
	return nil
}
