package stored

import (
	"errors"
	"strings"
	"testing"
)

func TestDecode_reports_what_it_cannot_read(t *testing.T) {
	var got []string
	OnUnreadable(func(kind, key string, err error) {
		if !errors.Is(err, ErrUnreadable) {
			err = errors.New("damaged")
		} else {
			err = errors.New("newer")
		}
		got = append(got, kind+" "+key+" "+err.Error())
	})
	t.Cleanup(func() { OnUnreadable(func(string, string, error) {}) })
	for key, value := range map[string]string{"1": `{"name":"x","added":1}`, "2": `{"v":2,"name":"x"}`, "3": `{"name":`, "4": ``} {
		var into struct {
			Name string `json:"name"`
		}
		got = nil
		err := Decode("kind", key, []byte(value), &into)
		want := map[string]string{"2": "kind 2 newer", "3": "kind 3 damaged", "4": "kind 4 damaged"}[key]
		if isUnreadable := errors.Is(err, ErrUnreadable); isUnreadable != (want != "") || strings.Join(got, "; ") != want {
			t.Errorf("%s: error %v, reported %q, want %q", value, err, got, want)
		}
		if (into.Name == "x") != (key == "1") {
			t.Errorf("%s: read %q", value, into.Name)
		}
	}
}
