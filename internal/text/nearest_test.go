package text_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/internal/text"
)

func TestName(t *testing.T) {
	names := []string{"get_trip", "list_trips", "create_booking", "x"}
	for asked, want := range map[string]string{
		"getTrip":                  "get_trip",
		"get-trips":                "get_trip",
		"create_bookings":          "create_booking",
		"delete_everything":        "",
		strings.Repeat("a", 10000): "",
	} {
		if got := text.Nearest(asked, slices.Values(names)); got != want {
			t.Errorf("Name(%.20q) = %q, want %q", asked, got, want)
		}
	}
}
