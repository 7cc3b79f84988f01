package files_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// TestHostedAgent_uses_an_upload_of_its_user uploads a file over MCP, and gives the handle to an agent. Another user's run cannot use it.
func TestHostedAgent_uses_an_upload_of_its_user(t *testing.T) {
	var handle atomic.Value
	hosted := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "\n  put-raw: {user_identity: false}\n"), func(r *modelserver.Request) modelserver.Step {
		if r.Messages[len(r.Messages)-1].Role == "tool" {
			return modelserver.Step{Text: r.Messages[len(r.Messages)-1].Text}
		}
		return sitetest.Calls("put-raw", `{"body":`+handle.Load().(string)+`}`)
	})
	api := new(fileAPI)
	hosted.API.Respond = api.ServeHTTP
	s := &uploadSite{hosted.Site, api}
	s.Write("photos.yaml", photos)
	block := strings.NewReplacer("toolset TRIPS", "toolset Trips", "oagent DIR", "mcp Trips\noagent DIR").Replace(hosted.Block(""))
	s.Start("agents {\nstore bolt DIR/store.db\nuploads "+s.URL+"/up\ntoolset Trips DIR/photos.yaml\n}", "agent_uploads\n"+block)
	handle.Store(s.uploaded("ann", forRaw, "", []byte("content")))
	if v := hosted.State("bob", hosted.Begin("bob", "desk", "Send it")); !strings.Contains(v.Text, "does not exist") || api.count() != 0 {
		t.Errorf("another user: %s %s, %d calls", v.Status, v.Text, api.count())
	}
	if v := hosted.State("ann", hosted.Begin("ann", "desk", "Send it")); v.Status != "complete" {
		t.Errorf("%+v", v)
	}
	if body, _ := api.last(); string(body) != "content" {
		t.Errorf("the API got %q", body)
	}
	if a := hosted.As("ann", http.MethodGet, "/engagements", ""); strings.Contains(a.Body, "Y29udGVudA") {
		t.Errorf("the record has the content: %s", a.Body)
	}
}
