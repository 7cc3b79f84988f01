package loader

import (
	"context"
	"errors"
	"testing"
)

func TestLoader_keeps_document(t *testing.T) {
	source := &memorySource{content: "one"}
	log := &loadLog{}
	l := New(Options{Source: source, Build: buildTitled, Observer: log.observer()})
	load := func() error { return l.Load(context.Background()) }
	text := func() string {
		if d := l.Document(); d != nil {
			return string(d.Data) + " of " + d.Toolset.Title
		}
		return ""
	}
	if err := load(); err != nil || text() != "" {
		t.Fatalf("not requested: %v, %q", err, text())
	}
	first := l.Toolset()
	log.want(t, "loaded one")

	l.KeepDocument()
	source.set("", errors.New("away"))
	if err := load(); err == nil || text() != "" {
		t.Errorf("while the source is away: %v, %q", err, text())
	}
	log.want(t, "failed: away")
	source.set("one", nil)
	if err := load(); err != nil || text() != "one of one" {
		t.Errorf("loaded anew: %v, %q", err, text())
	}
	if l.Toolset() != first || l.Document().Toolset != first {
		t.Error("the same document gave another Toolset")
	}
	log.want(t)

	source.set("bad", nil)
	if err := load(); err == nil || text() != "one of one" {
		t.Errorf("a bad document: %v, %q", err, text())
	}
	log.want(t, "failed: bad document")
	l.KeepDocument() // another handler that wants it
	if err := load(); err == nil {
		t.Error("the bad document is forgotten")
	}
	log.want(t) // and not built again
	source.set("two", nil)
	if err := load(); err != nil || text() != "two of two" {
		t.Errorf("a new document: %v, %q", err, text())
	}
}
