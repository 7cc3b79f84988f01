package protocol

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// Capabilities are the requests that a client has declared it can handle.
type Capabilities uint16

const (
	CanSample      Capabilities = 1 << iota // sampling/createMessage
	CanSampleTools                          // sampling/createMessage with tools
	CanElicit                               // elicitation/create with a form
	CanElicitURL                            // elicitation/create with a URL
	CanListRoots                            // roots/list

	// CanTask is no request: the client takes tasks instead of results of tools/call.
	CanTask
)

// TasksExtension identifies MCP Tasks in the lists of extensions that client and server declare.
const TasksExtension = "io.modelcontextprotocol/tasks"

// ReadCapabilities reads a ClientCapabilities object. An elicitation member without modes means
// forms: it had no modes before 2025-11-25, and later revisions keep that meaning.
func ReadCapabilities(raw jsontext.Value) (c Capabilities) {
	for walk := strictjson.Into(raw); walk.Next(); {
		object := walk.Value.Kind() == '{'
		switch {
		case walk.Is("sampling") && object:
			c |= CanSample
			if strictjson.HasMember(walk.Value, "tools") {
				c |= CanSampleTools
			}
		case walk.Is("elicitation") && object:
			if form, url := strictjson.HasMember(walk.Value, "form"), strictjson.HasMember(walk.Value, "url"); form || !url {
				c |= CanElicit
			}
			if strictjson.HasMember(walk.Value, "url") {
				c |= CanElicitURL
			}
		case walk.Is("roots") && object:
			c |= CanListRoots
		case walk.Is("extensions") && object:
			if strictjson.MemberOf(walk.Value, TasksExtension).Kind() == '{' {
				c |= CanTask
			}
		}
	}
	return c
}

// Has reports whether the client has declared all the given capabilities.
func (c Capabilities) Has(all Capabilities) bool { return c&all == all }

// Object returns the capabilities as a ClientCapabilities object.
func (c Capabilities) Object() []byte {
	var all, sampling, elicitation strictjson.ObjectBuilder
	add := func(to *strictjson.ObjectBuilder, one Capabilities, name string) {
		if c.Has(one) {
			to.Add(name, []byte("{}"))
		}
	}
	add(&sampling, CanSampleTools, "tools")
	add(&elicitation, CanElicit, "form")
	add(&elicitation, CanElicitURL, "url")
	if c.Has(CanSample) {
		all.Add("sampling", sampling.Close())
	}
	if len(elicitation) > 0 {
		all.Add("elicitation", elicitation.Close())
	}
	add(&all, CanListRoots, "roots")
	return all.Close()
}

// String lists the capabilities for error messages.
func (c Capabilities) String() string {
	var names []string
	for _, named := range []struct {
		bit  Capabilities
		name string
	}{
		{CanSample, "sampling"},
		{CanSampleTools, "sampling.tools"},
		{CanElicit, "elicitation.form"},
		{CanElicitURL, "elicitation.url"},
		{CanListRoots, "roots"},
	} {
		if c.Has(named.bit) {
			names = append(names, named.name)
		}
	}
	return strings.Join(names, ", ")
}
