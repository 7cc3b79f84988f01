package lock

import (
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit/samples"
)

func TestStored_lock_file_is_read(t *testing.T) {
	set := build(t, document("Trips", getTrip+","+listTrips))
	data := samples.File(t, "tools.lock", func() ([]byte, error) { return Of(set).AppendYAML(nil) })
	read, err := Read(data, "tools.lock")
	if err != nil {
		t.Fatal(err)
	}
	if changes := read.Compare(set); read.Len() != 2 || len(changes) != 0 {
		t.Errorf("got %d tools with the changes %v, want 2 without", read.Len(), changes)
	}
}
