package hosted_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

// frontend is a server with TLS before a site. It returns its host, and writes its certificate to
// the file NAME.pem of the site. It calls see with the header of each request.
func frontend(t *testing.T, name string, s *sitetest.Site, see func(http.Header)) string {
	t.Helper()
	target, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		see(r.In.Header)
	}}
	server := httptest.NewTLSServer(proxy)
	t.Cleanup(server.Close)
	s.Write(name+".pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	return server.Listener.Addr().String()
}

// twoSites are two sites that host an agent each, desk and helper, behind servers with TLS.
type twoSites struct {
	desk, helper         *sitetest.HostedSite
	deskHost, helperHost string

	mu   sync.Mutex
	sent []http.Header // of the requests to the helper
}

func newTwoSites(t *testing.T, desk, helper func(*modelserver.Request) modelserver.Step) *twoSites {
	t.Helper()
	s := &twoSites{desk: sitetest.NewHostedSite(t, "", desk), helper: sitetest.NewHostedSite(t, "", helper)}
	s.deskHost = frontend(t, "ca", s.desk.Site, func(http.Header) {})
	s.helperHost = frontend(t, "ca", s.helper.Site, func(h http.Header) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, h.Clone())
	})
	return s
}

// start starts both sites. Each site may call the other with these options of remote_agents. The desk has
// further options of oagent.
func (s *twoSites) start(deskAgent, helperAgent, options string, further ...string) error {
	s.desk.Write("agent.yaml", deskAgent)
	s.helper.Write("agent.yaml", helperAgent)
	remote := func(host string, ca *sitetest.HostedSite) string {
		return fmt.Sprintf("remote_agents %s {\nheader_up X-Test-User service\ntrusted_ca %s\n%s\n}", host, filepath.Join(ca.Dir, "ca.pem"), options)
	}
	helper := strings.NewReplacer("DIR", s.helper.Dir, "TRIPS", filepath.Join(s.helper.Dir, "trips.yaml")).Replace(s.helper.Block(remote(s.deskHost, s.desk)))
	desk := strings.Replace(s.desk.Block(remote(s.helperHost, s.helper)+"\n"+strings.Join(further, "\n")), "oagent DIR", "agents_console\noagent DIR", 1)
	// The second site follows in the place of the first one's end.
	block := fmt.Sprintf("%s\n}\nhttp://127.0.0.1:%d {\n%s", desk, s.helper.Port, helper)
	s.desk.T.Cleanup(func() { _ = caddy.Stop() })
	return s.desk.Load(acceptStore, block)
}

func (s *twoSites) run(t *testing.T) sitetest.RunView {
	t.Helper()
	return s.desk.State("ann", s.desk.Begin("ann", "desk", "Ask the helper", "Authorization", "Bearer ann"))
}

// TestRemoteAgents checks a call of an agent of another site: its description reaches the model, its
// result the record, and only the operator's credentials reach the other site.
func TestRemoteAgents(t *testing.T) {
	s := newTwoSites(t, sitetest.Play(sitetest.Calls("helper", `{"input":"Is it late?"}`), modelserver.Step{Text: "The helper knows."}), sitetest.Play(modelserver.Step{Text: "It is on time."}))
	capability := "\n  oagent://" + s.helperHost + "/agents/helper: {}\n"
	if err := s.start(sitetest.AgentDocument("desk", capability), sitetest.AgentDocument("helper", tripAgent), "allow_private_addresses"); err != nil {
		t.Fatal(err)
	}
	v := s.run(t)
	if v.Status != "complete" || v.Text != "The helper knows." || v.Usage.ToolCalls != 1 {
		t.Errorf("state %+v", v)
	}
	requests := s.desk.Models.Requests()
	if len(requests) != 2 || len(requests[0].Tools) == 0 {
		t.Fatalf("got the requests of the model %+v, want 2 with tools", requests)
	}
	if tool := requests[0].Tools[0]; tool.Name != "helper" || tool.Description != "Tests." {
		t.Fatalf("got the tool %q, %q; want helper, Tests.", tool.Name, tool.Description)
	}
	if last := requests[1].Messages[len(requests[1].Messages)-1]; !strings.Contains(last.Text, `"text":"It is on time."`) {
		t.Errorf("the result of the call is %+v", last)
	}
	if got := s.helper.Models.Requests(); len(got) != 1 || !strings.Contains(got[0].Messages[len(got[0].Messages)-1].Text, "Is it late?") {
		t.Errorf("requests of the helper's model %+v", got)
	}
	a := s.desk.As("ann", "GET", v.Audit, "")
	if a.Status != http.StatusOK || !strings.Contains(a.Body, `"helper"`) || !strings.Contains(a.Body, "It is on time.") {
		t.Errorf("audit record: status %d, %s", a.Status, a.Body)
	}
	list := sitetest.ConsoleJSON[sitetest.AgentCalls](s.desk.Site, "ann", "/console/api/calls")
	if want := "desk oagent://" + s.helperHost + "/agents/helper ok"; len(list.Calls) != 1 || list.Calls[0].String() != want {
		t.Errorf("calls %v, want %q", list.Calls, want)
	}
}

// TestRemoteAgents_private checks that a site on loopback is called only if that is configured.
func TestRemoteAgents_private(t *testing.T) {
	s := newTwoSites(t, sitetest.Play(sitetest.Calls("helper", `{"input":"x"}`), modelserver.Step{Text: "No."}), sitetest.Play(modelserver.Step{Text: "Yes."}))
	capability := "\n  oagent://" + s.helperHost + "/agents/helper: {}\n"
	if err := s.start(sitetest.AgentDocument("desk", capability), sitetest.AgentDocument("helper", tripAgent), ""); err != nil {
		t.Fatal(err)
	}
	if v := s.run(t); v.Status != "complete" || v.Text != "No." {
		t.Errorf("state %+v", v)
	}
	requests := s.desk.Models.Requests()
	if last := requests[len(requests)-1].Messages; !testkit.ContainsAll(last[len(last)-1].Text, "address public") {
		t.Errorf("the result of the call is %+v", last[len(last)-1])
	}
	if n := len(s.helper.Models.Requests()); n != 0 {
		t.Errorf("%d requests of the helper's model", n)
	}
}

// TestRemoteAgents_cycle checks that two agents of two sites that call each other stop.
func TestRemoteAgents_cycle(t *testing.T) {
	s := newTwoSites(t, sitetest.Play(sitetest.Calls("helper", `{"input":"x"}`), modelserver.Step{Text: "Enough."}), sitetest.Play(sitetest.Calls("desk", `{"input":"x"}`), modelserver.Step{Text: "Enough."}))
	desk := sitetest.AgentDocument("desk", "\n  oagent://"+s.helperHost+"/agents/helper: {}\n")
	helper := sitetest.AgentDocument("helper", "\n  oagent://"+s.deskHost+"/agents/desk: {}\n")
	if err := s.start(desk, helper, "allow_private_addresses"); err != nil {
		t.Fatal(err)
	}
	if v := s.run(t); v.Status != "complete" || v.Text != "Enough." {
		t.Errorf("state %+v", v)
	}
	// The user's request may have another host than the reference. Then desk runs a second time.
	if desk, helper := len(s.desk.Models.Requests()), len(s.helper.Models.Requests()); desk > 4 || helper != 2 {
		t.Errorf("%d requests of desk's model, %d of helper's", desk, helper)
	}
}

// TestRemoteAgents_of_other_hosts_are_refused checks a document with an agent of a server that is not in the list.
func TestRemoteAgents_of_other_hosts_are_refused(t *testing.T) {
	s := newTwoSites(t, sitetest.Play(), sitetest.Play())
	err := s.start(sitetest.AgentDocument("desk", "\n  oagent://other.example/agents/helper: {}\n"), sitetest.AgentDocument("helper", tripAgent), "")
	if err == nil || !testkit.ContainsAll(err.Error(), "other.example remote_agents") {
		t.Errorf("error %v", err)
	}
}

// TestRemoteAgents_chain checks the responses to chains that are not valid.
func TestRemoteAgents_chain(t *testing.T) {
	s := hosted(t, sitetest.AgentDocument("desk", tripAgent), "", sitetest.Play(modelserver.Step{Text: "Yes."}))
	deep := strings.TrimSuffix(strings.Repeat(strings.Repeat("0", 24)+",", 9), ",")
	for chain, want := range map[string]int{"": 303, strings.Repeat("0", 24): 303, "x": 400, deep: 508} {
		if a := s.As("ann", "POST", "/agents/desk", `{"input":"x"}`, "Oagent-Chain", chain); a.Status != want {
			t.Errorf("%.30q: %d %s, want %d", chain, a.Status, a.Body, want)
		}
	}
}

// TestRemoteAgents_ask checks that the question of an agent of another site goes up to the user of the caller, and that the agent goes on
// with the answer in the same Engagement.
func TestRemoteAgents_ask(t *testing.T) {
	s := newTwoSites(t, sitetest.Play(sitetest.Calls("helper", `{"input":"Book it"}`), modelserver.Step{Text: "Booked."}),
		sitetest.Play(sitetest.Calls("ask-user", `{"question":"Which day?"}`), modelserver.Step{Text: "It is on Monday."}))
	capability := "\n  oagent://" + s.helperHost + "/agents/helper: {}\n"
	if err := s.start(sitetest.AgentDocument("desk", capability), sitetest.AgentDocument("helper", tripAgent), "allow_private_addresses"); err != nil {
		t.Fatal(err)
	}
	location := s.desk.Begin("ann", "desk", "Ask the helper", "Authorization", "Bearer ann")
	v := s.desk.State("ann", location)
	if v.Status != "awaiting-additional-input" || len(v.Questions) != 1 || v.Questions[0].Text != "Which day?" {
		t.Fatalf("state %+v", v)
	}
	v = s.desk.View(s.desk.As("ann", "POST", location, fmt.Sprintf(`{"input":"Monday","in_reply_to":%q}`, v.Questions[0].ID), "Prefer", "wait=60"))
	if v.Status != "complete" || v.Text != "Booked." {
		t.Errorf("state %+v", v)
	}
	requests := s.helper.Models.Requests()
	if len(requests) != 2 || !strings.Contains(requests[1].Messages[len(requests[1].Messages)-1].Text, "Monday") {
		t.Errorf("requests of the helper's model %+v", requests)
	}
	desk := s.desk.Models.Requests()
	if last := desk[len(desk)-1]; len(desk) != 2 || !strings.Contains(last.Messages[len(last.Messages)-1].Text, "It is on Monday.") {
		t.Errorf("requests of the desk's model %+v", desk)
	}
}
