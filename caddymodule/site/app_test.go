package site

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// fakeSection is a section that records what the app does with it.
type fakeSection struct {
	Size int `json:"size,omitempty"`

	needs    func(*App) error
	startErr error
	did      []string
}

func (s *fakeSection) Options(b *directive.Block) directive.Options {
	return directive.Options{"size": directive.To(b.Positive, &s.Size)}
}

func (s *fakeSection) Provision(_ caddy.Context, a *App) error {
	s.did = append(s.did, "provision")
	if s.needs != nil {
		return s.needs(a)
	}
	return nil
}

func (s *fakeSection) Start() error {
	s.did = append(s.did, "start")
	return s.startErr
}

func (s *fakeSection) Stop() { s.did = append(s.did, "stop") }

// otherSection is a section of another type.
type otherSection struct {
	fakeSection
	Other string `json:"other,omitempty"`
}

// provisioned returns an app with these sections only, and what ends its configuration.
func provisioned(t *testing.T, sections ...Section) (*App, func()) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	a := &App{sections: sections}
	if err := a.Provision(ctx); err != nil {
		cancel()
		t.Fatal(err)
	}
	return a, cancel
}

func TestApp_await_start(t *testing.T) {
	a, end := provisioned(t)
	defer end()
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := a.AwaitStart(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before the start: error %v, want the end of the context", err)
	}
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	if err := a.AwaitStart(t.Context()); err != nil {
		t.Errorf("after the start: %v", err)
	}
	other, endOther := provisioned(t)
	endOther()
	if err := other.AwaitStart(t.Context()); !errors.Is(err, errEnded) {
		t.Errorf("after the end of a configuration that never started: error %v, want %v", err, errEnded)
	}
}

// TestApp_failed_start checks that a section that fails to start is stopped, because a part of it may have started.
func TestApp_failed_start(t *testing.T) {
	good, bad, unused := new(fakeSection), &fakeSection{startErr: errors.New("no")}, new(fakeSection)
	a, end := provisioned(t, good, bad, unused)
	defer end()
	if err := a.Start(); !errors.Is(err, bad.startErr) {
		t.Errorf("error %v", err)
	}
	for name, c := range map[string]struct {
		section *fakeSection
		want    []string
	}{"good": {good, []string{"provision", "start", "stop"}}, "bad": {bad, []string{"provision", "start", "stop"}}, "unused": {unused, []string{"provision"}}} {
		if !slices.Equal(c.section.did, c.want) {
			t.Errorf("%s: %q, want %q", name, c.section.did, c.want)
		}
	}
}

// TestApp_sections_start_after_those_that_they_need checks the order, and that each section is provisioned once.
func TestApp_sections_start_after_those_that_they_need(t *testing.T) {
	other := new(otherSection)
	first := &fakeSection{needs: func(a *App) error {
		found, err := Get[*otherSection](a)
		if err == nil && found != other {
			err = errors.New("another section")
		}
		return err
	}}
	a, end := provisioned(t, first, other)
	defer end()
	if want := []Section{other, first}; !slices.Equal(a.begun, want) {
		t.Errorf("the sections start in another order")
	}
	if !slices.Equal(other.did, []string{"provision"}) {
		t.Errorf("the needed section: %q", other.did)
	}
	if _, err := Get[*missingSection](a); err == nil {
		t.Error("a section that is not linked was found")
	}
}

type missingSection struct{ fakeSection }

func TestApp_JSON_has_the_options_of_all_sections(t *testing.T) {
	one, two := new(fakeSection), new(otherSection)
	a := &App{sections: []Section{one, two}}
	if err := json.Unmarshal([]byte(`{"size":3,"other":"x"}`), a); err != nil {
		t.Fatal(err)
	}
	if one.Size != 3 || two.Other != "x" {
		t.Errorf("got %d and %q", one.Size, two.Other)
	}
	text, err := json.Marshal(a)
	var got map[string]any
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if want := map[string]any{"size": 3.0, "other": "x"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s, %v", text, err)
	}
	for option, want := range map[string]string{"sizes": "unknown field", "toolsets": "caddymodule/app", "audit": "caddymodule/archive"} {
		err := json.Unmarshal([]byte(`{"`+option+`":1}`), a)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", option, err, want)
		}
	}
}
