package files_test

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// startHosted starts a site whose agents call an API with files.
func startHosted(hosted *sitetest.HostedSite) *uploadSite {
	s := &uploadSite{hosted.Site, new(fileAPI)}
	hosted.API.Respond = s.api.ServeHTTP
	s.Write("photos.yaml", photos)
	block := strings.NewReplacer("toolset TRIPS", "toolset Trips", "oagent DIR", "mcp Trips\noagent DIR").Replace(hosted.Block(""))
	s.Start("agents {\nstore bolt DIR/store.db\nuploads "+s.URL+"/up\ntoolset Trips DIR/photos.yaml\n}", "agent_uploads\n"+block)
	return s
}

// TestHostedAgent_uses_an_upload_of_its_user uploads a file over MCP, and gives the handle to an agent. Another user's run cannot use it.
func TestHostedAgent_uses_an_upload_of_its_user(t *testing.T) {
	var handle atomic.Value
	hosted := sitetest.NewHostedSite(t, sitetest.AgentDocument("desk", "\n  put-raw: {user_identity: false}\n"), func(r *modelserver.Request) modelserver.Step {
		if r.Messages[len(r.Messages)-1].Role == "tool" {
			return modelserver.Step{Text: r.Messages[len(r.Messages)-1].Text}
		}
		return sitetest.Calls("put-raw", `{"body":`+handle.Load().(string)+`}`)
	})
	s := startHosted(hosted)
	handle.Store(s.uploaded("ann", forRaw, "", []byte("content")))
	if v := hosted.State("bob", hosted.Begin("bob", "desk", "Send it")); !strings.Contains(v.Text, "does not exist") || s.api.count() != 0 {
		t.Errorf("another user: %s %s, %d calls", v.Status, v.Text, s.api.count())
	}
	if v := hosted.State("ann", hosted.Begin("ann", "desk", "Send it")); v.Status != "complete" {
		t.Errorf("%+v %+v", v, v.Error)
	}
	if body, _ := s.api.last(); string(body) != "content" {
		t.Errorf("the API got %q", body)
	}
	if a := hosted.As("ann", http.MethodGet, "/engagements", ""); strings.Contains(a.Body, "Y29udGVudA") {
		t.Errorf("the record has the content: %s", a.Body)
	}
}

// TestHostedAgent_passes_a_file_on gives the binary response of a tool to another tool. The model and the record have no bytes and no URL.
func TestHostedAgent_passes_a_file_on(t *testing.T) {
	file := regexp.MustCompile(`"sha256":"([0-9a-f]+)".*"upload":"(upl_[a-z2-7]+)"`)
	document := sitetest.AgentDocument("desk", "\n  get-video: {user_identity: false}\n  put-raw: {user_identity: false}\n")
	hosted := sitetest.NewHostedSite(t, document, func(r *modelserver.Request) modelserver.Step {
		last := r.Messages[len(r.Messages)-1]
		switch described := file.FindStringSubmatch(last.Text); {
		case last.Role != "tool":
			return sitetest.Calls("get-video", `{}`)
		case described != nil:
			if strings.Contains(last.Text, "/up/") || described[1] != hexSum(video) {
				t.Errorf("the model got %s", last.Text)
			}
			return sitetest.Calls("put-raw", `{"body":{"upload":"`+described[2]+`"}}`)
		}
		return modelserver.Step{Text: last.Text}
	})
	s := startHosted(hosted)
	if v := hosted.State("ann", hosted.Begin("ann", "desk", "Copy the film")); v.Status != "complete" {
		t.Errorf("%+v %+v", v, v.Error)
	}
	if body, header := s.api.last(); !bytes.Equal(body, video) || header.Get("Content-Type") != "video/mp4" {
		t.Errorf("the API got %d bytes with %v", len(body), header)
	}
	if a := hosted.As("ann", http.MethodGet, "/engagements", ""); strings.Contains(a.Body, "/up/") {
		t.Errorf("the record has the URL: %s", a.Body)
	}
}
