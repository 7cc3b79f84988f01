package detect_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fairwayhq/fairway/tools/inspect/detect"
)

// score counts the values of one kind.
type score struct {
	found, missed, wrong int // wrong: masks where there is no value of the kind
}

func (s score) precision() float64 { return ratio(s.found, s.wrong) }
func (s score) recall() float64    { return ratio(s.found, s.missed) }

func ratio(good, bad int) float64 {
	if good+bad == 0 {
		return 1
	}
	return float64(good) / float64(good+bad)
}

var (
	isMarked = regexp.MustCompile(`⟦(.*?)⟧`)
	isMask   = regexp.MustCompile(`\[([a-z0-9-]+)\]|(masked@email\.invalid)|: ?0[,}]`)
)

// TestCorpus measures precision and recall on testdata/corpus.txt. docs/inspect.md has the figures: change them together.
func TestCorpus(t *testing.T) {
	if kinds := measure(t, "testdata/corpus.txt", floors); kinds < 40 {
		t.Errorf("the corpus has %d kinds", kinds)
	}
}

// TestCorpus_second measures the same on cases for which no detector was changed.
func TestCorpus_second(t *testing.T) { measure(t, "testdata/second.txt", secondFloors) }

// measure prints the figures of a corpus, and fails below the floors.
func measure(t *testing.T, name string, floors map[string]floor) int {
	t.Helper()
	corpus, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	scores, kinds := make(map[string]*score), make(map[string]int)
	of := func(kind string) *score {
		if scores[kind] == nil {
			scores[kind] = new(score)
		}
		return scores[kind]
	}
	for line := range strings.Lines(string(corpus)) {
		kind, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			continue // a comment
		}
		kinds[kind]++
		kind, text = family(kind), strings.ReplaceAll(text, "~", "")
		plain := strings.NewReplacer("⟦", "", "⟧", "").Replace(text)
		isJSON := strings.HasPrefix(text, "{")
		got, labels := mask(t, plain, isJSON)
		masks := make(map[string]int)
		for _, m := range isMask.FindAllStringSubmatch(got, -1) {
			switch {
			case strings.Contains(plain, m[0]): // part of the line
			case m[2] != "":
				masks[detect.Email]++
			case m[1] == "": // a number
				masks[labels[0]]++
			default:
				masks[family(m[1])]++
			}
		}
		for _, value := range isMarked.FindAllStringSubmatch(text, -1) {
			if strings.Contains(got, value[1]) || masks[kind] == 0 {
				of(kind).missed++
				t.Logf("missed %s: %s", kind, got)
				continue
			}
			of(kind).found++
			masks[kind]--
		}
		for label, n := range masks {
			if n > 0 {
				of(label).wrong += n
				t.Logf("wrong %s: %s", label, got)
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(scores)) {
		s := *scores[kind]
		fmt.Printf("%-8s values %3d  precision %.2f  recall %.2f\n", kind, s.found+s.missed, s.precision(), s.recall())
		if floor := floors[kind]; s.precision() < floor.precision || s.recall() < floor.recall {
			t.Errorf("%s: precision %.2f, recall %.2f; at least %.2f and %.2f are required", kind, s.precision(), s.recall(), floor.precision, floor.recall)
		}
	}
	if len(scores) != len(floors) {
		t.Errorf("the corpus has the kinds %v", kinds)
	}
	return len(kinds)
}

// family returns the entity of personal data, or "secrets" for the kind of a secret. A secret may have several kinds: a
// password of a URL may be a token of GitHub.
func family(kind string) string {
	if kind == "-" || slices.Contains(detect.Entities[:], kind) {
		return kind
	}
	return "secrets"
}

type floor struct{ precision, recall float64 }

// secondFloors are the figures of the first measurement, rounded down.
var secondFloors = map[string]floor{
	detect.Card:  {1, 0.91},
	detect.Email: {1, 0.71},
	detect.IBAN:  {1, 1},
	detect.Phone: {0.83, 1},
	detect.SSN:   {1, 1},
	"secrets":    {1, 1},
}

// floors are the lowest figures that are accepted.
var floors = map[string]floor{
	detect.Card:  {0.99, 0.94},
	detect.Email: {0.99, 0.89},
	detect.IBAN:  {0.99, 0.96},
	detect.Phone: {0.97, 0.93},
	detect.SSN:   {0.99, 0.87},
	"secrets":    {0.99, 0.95},
}
