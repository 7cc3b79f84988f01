package integration

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// yamlDocuments returns the documents of a YAML file. Duplicate keys are errors.
func yamlDocuments(t *testing.T, path string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var documents []map[string]any
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document map[string]any
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return documents
		case err != nil:
			t.Fatalf("%s: %v", path, err)
		}
		documents = append(documents, document)
	}
}

func TestPackaging_is_valid_YAML(t *testing.T) {
	for _, pattern := range []string{"../compose.yaml", "../.goreleaser.yaml", "../.github/*.yml", "../.github/*/*.yml", "../examples/kubernetes/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(paths), err)
		}
		for _, path := range paths {
			if len(yamlDocuments(t, path)) == 0 {
				t.Errorf("%s is empty", path)
			}
		}
	}
}

func TestPackaging_the_image_is_built_with_the_Go_of_the_module(t *testing.T) {
	image, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if version == nil || !bytes.Contains(image, []byte("ARG GO="+string(version[1])+"\n")) {
		t.Errorf("the Dockerfile does not use Go %s of go.mod", version[1])
	}
}

// TestPackaging_the_Kubernetes_configuration_is_valid checks what Kubernetes itself does not
// check: the Caddyfile in the ConfigMap, and the ports and the paths of the probes.
func TestPackaging_the_Kubernetes_configuration_is_valid(t *testing.T) {
	dir := t.TempDir()
	var probed, served string
	for _, document := range yamlDocuments(t, "../examples/kubernetes/fairway.yaml") {
		switch document["kind"] {
		case "ConfigMap":
			for name, content := range document["data"].(map[string]any) {
				text := strings.ReplaceAll(content.(string), "/etc/caddy/", dir+"/")
				if name == "Caddyfile" {
					served = text
				}
				writeFile(t, filepath.Join(dir, name), text)
			}
		case "Deployment":
			text, err := yaml.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			probed = string(text)
		}
	}
	for _, path := range []string{"/healthz", "/otc/health"} {
		if !strings.Contains(probed, "path: "+path) {
			t.Errorf("no probe of %s", path)
		}
	}
	if !strings.Contains(served, "respond /healthz") || !strings.Contains(served, "otc /otc") {
		t.Errorf("the Caddyfile does not serve the paths of the probes:\n%s", served)
	}
	cmd := exec.Command(caddy, "validate", "--adapter", "caddyfile", "--config", filepath.Join(dir, "Caddyfile"))
	cmd.Env = append(os.Environ(), "REDIS_PASSWORD=secret")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("validating the Caddyfile: %v\n%s", err, output)
	}
}

func TestPackaging_lists_the_licence_of_each_module(t *testing.T) {
	list, err := os.ReadFile("../docs/licences.md")
	if err != nil {
		t.Fatal(err)
	}
	// The binary under test may be built without the tags of a release.
	cmd := exec.Command("go", "list", "-deps", "-tags=nobadger,nomysql,nopgx", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "../cmd/caddy")
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := strings.Fields(string(output))
	if len(modules) == 0 {
		t.Error("the binary has no modules")
	}
	slices.Sort(modules)
	for _, module := range slices.Compact(modules) {
		if !bytes.Contains(list, []byte("\n| "+module+" | ")) {
			t.Errorf("docs/licences.md does not list %s: run packaging/licences.sh > docs/licences.md", module)
		}
	}
}
