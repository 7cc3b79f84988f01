package agentset

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/oagent"
)

// read returns the agents of these documents as accepted ones.
func read(t *testing.T, documents ...string) []*oagent.Agent {
	t.Helper()
	var agents []*oagent.Agent
	for _, d := range documents {
		a, err := oagent.ReadAgent([]byte(d), "accepted")
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, a)
	}
	return agents
}

func TestAccept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	testkit.WriteAged(t, file, document("own"), time.Hour)
	l, err := Load(Options{
		Files: []string{file}, Logger: zap.NewNop(),
		Check: func([]*oagent.Agent) error { return nil },
		Permit: func(a *oagent.Agent, names *Names) error {
			if a.Name == "wide" {
				return errors.New("too wide")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	// other uses a tool that does not exist: the capability has no effect.
	other := strings.Replace(document("other"), "capabilities: {}", "capabilities: {get-trip: {}}", 1)
	expect := func(step, want string) *Set {
		t.Helper()
		set := l.Current()
		if got := strings.Join(set.AgentNames(), " "); got != want {
			t.Errorf("%s: agents %q, want %q", step, got, want)
		}
		return set
	}
	l.Accept(read(t, document("mine"), document("wide"), document("own"), other))
	set := expect("accepted", "mine other own")
	own := set.Agents["own"]
	if set.Only != own || own.Location != file {
		t.Errorf("got the only agent %+v, want own from %s", set.Only, file)
	}
	if mine := set.Agents["mine"]; own.Accepted || !mine.Accepted {
		t.Errorf("accepted: got own %t and mine %t, want false and true", own.Accepted, mine.Accepted)
	}
	// An accepted agent is neither a capability nor a reviewer.
	if set.Names.Agent("mine") || !set.Names.Agent("own") || strings.Contains(strings.Join(set.Names.All(), " "), "mine") {
		t.Errorf("names %v", set.Names.All())
	}
	testkit.WriteAged(t, file, document("own")+"---\n"+document("mine"), time.Minute)
	if !l.updateStates() || !l.reload() {
		t.Fatal("not reloaded")
	}
	if set := expect("a file takes the name", "mine other own"); set.Agents["mine"].Accepted {
		t.Error("the accepted agent replaced that of a file")
	}
	testkit.WriteAged(t, file, document("own"), time.Second)
	if !l.updateStates() || !l.reload() {
		t.Fatal("not reloaded")
	}
	if set := expect("the file gives the name back", "mine other own"); !set.Agents["mine"].Accepted {
		t.Error("the accepted agent did not return")
	}
	l.Accept(nil)
	expect("deleted", "own")
}

func TestCheckRemote(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	testkit.WriteAged(t, file, strings.Replace(document("one"), "capabilities: {}", "capabilities: {'oagent://a.example/helper': {}}", 1), time.Hour)
	options := Options{Files: []string{file}, Logger: zap.NewNop(), Check: func([]*oagent.Agent) error { return nil }}
	if _, err := Load(options); err == nil || !testkit.ContainsAll(err.Error(), "a.example remote_agents") {
		t.Errorf("not allowed: %v", err)
	}
	options.CheckRemote = func(oagent.Reference) error { return nil }
	l, err := Load(options)
	if err != nil {
		t.Fatal(err)
	}
	agent := l.Current().Agents["one"]
	if target, err := agent.Agent.Capabilities[0].Reference.Resolve(l.Current().Names); err != nil || !target.Remote {
		t.Errorf("%+v, %v", target, err)
	}
}
