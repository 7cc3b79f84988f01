package docs

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var licenceRow = regexp.MustCompile(`(?m)^\| (\S+\.\S+) \| \S.* \|$`)

// TestLicences_list_the_modules_of_a_release compares the page with the modules that
// packages of a release binary come from.
func TestLicences_list_the_modules_of_a_release(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags=nobadger,nomysql,nopgx",
		"-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "./cmd/caddy")
	list.Dir = root
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(output))
	slices.Sort(want)
	want = slices.Compact(want)

	data, err := os.ReadFile("licences.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range licenceRow.FindAllStringSubmatch(string(data), -1) {
		got = append(got, row[1])
	}
	for _, module := range want {
		if !slices.Contains(got, module) {
			t.Errorf("docs/licences.md lacks %s; run: packaging/licences.sh > docs/licences.md", module)
		}
	}
	for _, module := range got {
		if !slices.Contains(want, module) {
			t.Errorf("docs/licences.md has %s, which no release contains; run: packaging/licences.sh > docs/licences.md", module)
		}
	}
}
