package inspectors_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }

// planted are values that no output of a site may have.
var planted = []string{"ada.lovelace@example.com", "AKIA" + "QYLPMN5HHHFPZAM2", "4111 1111 1111 1111"}

// all is a text with the planted values.
var all = strings.Join(planted, " and ")

// masked is all after the inspectors.
const masked = "[email] and [aws-access-key] and [card]"

// both are the inspectors of a toolset for all phases.
const both = "inspect secrets {\nphases arguments result error list\n}\ninspect pii {\nphases arguments result error list\n}\n"

// without reports each planted value in a text.
func without(t *testing.T, where, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, `"logger":"http.handlers.reverse_proxy"`) { // Caddy's debug log of headers, see docs/inspect.md
			continue
		}
		for _, value := range planted {
			if at := strings.Index(line, value); at >= 0 {
				t.Errorf("%s: %.300s", where, line[max(0, at-200):])
			}
		}
	}
}

// filesWithout reports each planted value in the files of a site: its log, its store.
func filesWithout(t *testing.T, s *sitetest.Site) {
	t.Helper()
	without(t, "the log", s.Log())
	_ = filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasSuffix(path, ".log") && !strings.HasSuffix(path, ".yaml") {
			content, _ := os.ReadFile(path)
			without(t, path, string(content))
		}
		return err
	})
}
