package console_test

import (
	"bytes"
	"cmp"
	"context"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
	"github.com/fairwayhq/fairway/caddymodule/internal/keptcall"
	"github.com/fairwayhq/fairway/internal/testkit/modelserver"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
	"github.com/fairwayhq/fairway/store"
	"github.com/fairwayhq/fairway/store/embedded"
	"github.com/fairwayhq/fairway/tools/callid"
	"github.com/fairwayhq/fairway/tools/logonly"
)

// pictures is the environment variable that makes TestConsole_pictures write the pictures of the documentation.
const pictures = "FAIRWAY_PICTURES"

// TestConsole_pictures runs the railway of the examples with two agents, an hour of calls and reviews that wait, and writes
// pictures of it to docs/images, at twice the size in which the README shows them.
func TestConsole_pictures(t *testing.T) {
	if os.Getenv(pictures) == "" {
		t.Skipf("%s is not set", pictures)
	}
	if _, err := chromium(); err != nil {
		t.Fatal(err)
	}
	document, err := filepath.Abs("../../testdata/demo.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	agents, err := os.ReadFile("../../examples/agents/agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := sitetest.NewHostedSite(t, string(agents), railwayModel)
	s.API.Respond = railway
	block := strings.NewReplacer("TRIPS", "railway", "oagent DIR", "agents_console {\nauditors grace\n}\nmcp /mcp railway {\nagent desk\n}\noagent DIR").Replace(s.Block("auditors grace\nreviews /reviews\nreview_wait off"))
	global := "agents {\nstore bolt DIR/store.db\ntoolset railway " + document + "\n"
	var run, review string
	t.Run("reviews", func(t *testing.T) { // their own calls are not kept
		s := &sitetest.HostedSite{Site: s.With(t)}
		s.Start(global+"calls off\n}", block)
		for user, input := range map[string]string{"ben": "Two seats on the first train to Zurich, please.", "carla": "Book a seat to Zurich for tomorrow morning."} {
			s.State(user, s.Begin(user, "desk", input))
		}
		run = s.Begin("ada", "desk", "When is the next train to Zurich? Please book two seats.")
		state := s.State("ada", run)
		if len(state.Reviews) != 1 {
			t.Fatalf("the run has the state %+v, want one that waits for a review", state)
		}
		review = state.Reviews[0].Location
	})
	path := filepath.Join(s.Dir, "store.db")
	now := time.Now()
	synctest.Test(t, func(t *testing.T) { keepHour(t, path, now) })
	s.Start(global+"}", block)
	b := newBrowser(t, s.Site, "grace")
	for _, p := range []struct {
		name, path, shown string
		width, height     int64
	}{
		{"overview", "/console", ".chart canvas", 1280, 796},
		{"calls", "/console/calls", "#ended tr", 1280, 640},
		{"run", "/console" + run, "#turn-2", 1280, 840},
		{"review", "/console" + review, ".decide", 390, 844},
	} {
		for suffix, scheme := range map[string]string{"": "light", "-dark": "dark"} {
			var picture []byte
			b.run(
				chromedp.EmulateViewport(p.width, p.height, chromedp.EmulateScale(2)),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}),
				chromedp.Navigate(s.URL+p.path), chromedp.WaitVisible(p.shown, chromedp.ByQuery),
				chromedp.Poll(`[...document.querySelectorAll(".chart")].every(c => c.querySelector("canvas"))`, nil), chromedp.CaptureScreenshot(&picture),
			)
			small := compressed(t, picture)
			if len(small) > 120<<10 {
				t.Errorf("the picture %s%s has %d bytes, want at most 120 KiB", p.name, suffix, len(small))
			}
			if err := os.WriteFile(filepath.Join("../../docs/images", p.name+suffix+".png"), small, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// railway is the API of the examples.
func railway(w http.ResponseWriter, r *http.Request) {
	time.Sleep(time.Duration(80+len(r.URL.Path)*7) * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	trip := `{"id":"ic-801","from":"Bern","to":"Zurich","departs":"08:02","minutes":56,"seats":112}`
	if r.URL.Path == "/trips" {
		trip = `{"trips":[` + trip + `]}`
	}
	_, _ = w.Write([]byte(trip))
}

// railwayModel is the model of both agents.
func railwayModel(r *modelserver.Request) modelserver.Step {
	time.Sleep(time.Duration(500+90*len(r.Messages)) * time.Millisecond)
	if strings.HasPrefix(r.System, "You find trips.") {
		return sitetest.Play(
			modelserver.Step{InputTokens: 412, OutputTokens: 21, Calls: sitetest.Calls("list-trips", `{"to":"Zurich"}`).Calls},
			modelserver.Step{Text: "ic-801 departs at 08:02 and has 112 free seats.", InputTokens: 530, OutputTokens: 24},
		)(r)
	}
	return sitetest.Play(
		modelserver.Step{Text: "I ask the planner for the trips to Zurich.", InputTokens: 655, OutputTokens: 38, Calls: sitetest.Calls("planner", `{"input":"Find the next trip to Zurich."}`).Calls},
		modelserver.Step{Text: "ic-801 departs at 08:02 and has free seats. I book two.", InputTokens: 790, OutputTokens: 52, Calls: sitetest.Calls("create-booking", `{"trip_id":"ic-801","passenger":"Ada","seats":2}`).Calls},
	)(r)
}

// keptHour is what callers of the railway do: calls, by how many of a thousand they are.
var keptHour = []struct {
	share     int
	took      float64 // milliseconds
	arguments string
	call      keptcall.Call
}{
	{358, 31, `{"to":"Zurich"}`, keptcall.Call{Tool: "list_trips", Outcome: "ok", Status: 200, Size: 320}},
	{110, 34, `{"to":"Geneva"}`, keptcall.Call{Tool: "list_trips", Outcome: "ok", Status: 200, Size: 210}},
	{353, 18, `{"trip_id":"ic-801"}`, keptcall.Call{Tool: "get_trip", Outcome: "ok", Status: 200, Size: 90}},
	{90, 85, `{"trip_id":"ic-801","passenger":"Ada","seats":2}`, keptcall.Call{Tool: "create_booking", Agent: "desk", Outcome: "ok", Status: 201, Size: 120}},
	{30, 40, `{"booking_id":"bk-1001"}`, keptcall.Call{Tool: "cancel_booking", Agent: "clerk", Outcome: "ok", Status: 204}},
	{14, 42, `{"booking_id":"bk-1001"}`, keptcall.Call{Tool: "cancel_booking", Agent: "clerk", Outcome: "ok", Status: 204, Would: logonly.Would{
		Effect: logonly.Refuse, Rule: "capabilities.cancel-booking.input_restriction.assertion", Why: "the assertion does not hold",
	}}},
	{10, 2, `{"trip_id":"ir-1512","passenger":"Ben","seats":6}`, keptcall.Call{
		Tool: "create_booking", Agent: "desk", Outcome: "restricted", Status: 403,
		Rule: "capabilities.create-booking.input_restriction.assertion", Reason: "the call of create-booking was not made: recent.create-booking.inputs.seats <= 4 does not hold",
	}},
	{6, 3, `{"trip_id":"ic-801","passenger":"Carla","seats":1}`, keptcall.Call{
		Tool: "create_booking", Agent: "desk", Outcome: "pending", Status: 403,
		Rule: "capabilities.create-booking.input_restriction.require_review", Reason: "the call of create-booking was not made: it needs a review, which has been requested",
	}},
	{12, 21, `{"trip_id":"ice-71","passenger":"Dan","seats":2}`, keptcall.Call{
		Tool: "create_booking", Agent: "desk", Outcome: "refused", Status: 409,
		Reason: "POST /bookings answered 409 Conflict: trip ice-71 has no seat left; choose another trip",
	}},
	{8, 16, `{"trip_id":"ic-108"}`, keptcall.Call{
		Tool: "get_trip", Outcome: "refused", Status: 404,
		Reason: "GET /trips/{trip_id} answered 404 Not Found: no trip has this id; list the trips to see which there are",
	}},
	{9, 0.2, `{"trip":"ic-801"}`, keptcall.Call{Tool: "get_trip", Outcome: "invalid", Reason: "invalid arguments for get_trip: /trip: no such argument; did you mean trip_id?"}},
}

// keepHour writes the calls of the hour before a time to the store in a file, by the clock of a bubble. For three minutes, the
// API is down.
func keepHour(t *testing.T, path string, until time.Time) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same traffic each time
	time.Sleep(time.Until(until.Add(-time.Hour)))
	records, err := embedded.Open(path, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	var nodes []*calllog.Log
	for _, name := range []string{"gateway-1", "gateway-2"} {
		node := calllog.New(name, func(context.Context) (store.Store, error) { return records, nil }, false)
		defer node.Close()
		node.Start(calllog.Options{Config: calllog.Config{Arguments: []string{"*"}}})
		nodes = append(nodes, node)
	}
	users := []string{"ada", "ada", "ben", "ben", "carla", "dan", "emma", "nightly"}
	requests := map[string]string{"list_trips": "GET /trips", "get_trip": "GET /trips/{trip_id}", "create_booking": "POST /bookings", "cancel_booking": "DELETE /bookings/{booking_id}"}
	record := func(index int, down bool) {
		call := keptHour[index].call
		call.ID, call.Site, call.Endpoint, call.Protocol = callid.New().String(), "srv0 127.0.0.1", "/mcp", "mcp"
		call.Toolset, call.Request, call.User = "railway", requests[call.Tool], users[random.IntN(len(users))]
		call.Took = keptHour[index].took * math.Exp(random.NormFloat64()*0.25)
		if call.User == "nightly" {
			call.Endpoint, call.Protocol = "/otc", "otc"
		}
		if down && call.Outcome == "ok" {
			call.Outcome, call.Status, call.Size, call.Would, call.Took = "unreachable", 502, 0, logonly.Would{}, 5*call.Took
			call.Reason = call.Request + " could not be reached (502 Bad Gateway); the operator finds this call as " + call.ID
		}
		nodes[random.IntN(2)].Active().Record(&call, []byte(keptHour[index].arguments), nil)
	}
	for time.Now().Before(until.Add(-20 * time.Second)) {
		minute := time.Until(until).Minutes()
		time.Sleep(time.Duration((0.8 + 0.4*random.Float64()) * float64(time.Second) / (1.8 + math.Sin(minute/6))))
		index := 0
		for at := random.IntN(1000) - keptHour[0].share; at >= 0 && index < len(keptHour)-1; at -= keptHour[index].share {
			index++
		}
		record(index, 21 < minute && minute < 24 && random.IntN(3) > 0)
	}
	for _, index := range []int{0, 2, 3, 6, 0, 9, 2, 1, 10, 3, 8, 2, 5, 0, 7, 2} { // the list of calls begins with the last one
		time.Sleep(time.Second)
		record(index, false)
	}
}

// compressed returns a picture with at most 64 of its colors: the twelve most frequent ones, and those that look like no other.
func compressed(t *testing.T, picture []byte) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	bounds, counts := full.Bounds(), make(map[color.Color]int)
	for i := range bounds.Dx() * bounds.Dy() {
		counts[full.At(i%bounds.Dx(), i/bounds.Dx())]++
	}
	small, index := image.NewPaletted(bounds, nil), make(map[color.Color]uint8)
	for _, c := range slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int { return cmp.Compare(counts[b], counts[a]) }) {
		if n := len(small.Palette); n < 12 || n < 64 && distance(c, small.Palette.Convert(c)) > 26 {
			small.Palette = append(small.Palette, c)
		}
		index[c] = uint8(small.Palette.Index(c))
	}
	for i := range small.Pix {
		small.Pix[i] = index[full.At(i%bounds.Dx(), i/bounds.Dx())]
	}
	buffer := new(bytes.Buffer)
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(buffer, small); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// distance returns how much two colors differ, from 0 to 441.
func distance(a, b color.Color) float64 {
	r, g, blue, _ := a.RGBA()
	r2, g2, blue2, _ := b.RGBA()
	return math.Hypot(math.Hypot(float64(r)-float64(r2), float64(g)-float64(g2)), float64(blue)-float64(blue2)) / 257
}
