package integration

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/store/storetest"
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
	for _, pattern := range []string{"../compose.yaml", "../.goreleaser.yaml", "../.github/*.yml", "../.github/*/*.yml", "../examples/kubernetes/*.yaml", "../testdata/helm/golden/*.yaml"} {
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
	version := regexp.MustCompile(`(?m)^toolchain go(\d+\.\d+\.\d+)$`).FindSubmatch(module)
	if version == nil {
		t.Fatal("go.mod names no toolchain, so workflows would use the first release of its Go version")
	}
	if !bytes.Contains(image, []byte("FROM golang:"+string(version[1])+"-")) {
		t.Errorf("the Dockerfile does not use Go %s of go.mod", version[1])
	}
}

// TestPackaging_is_pinned checks that base images and actions are named by their digests, and that no tool is
// installed in its latest version.
func TestPackaging_is_pinned(t *testing.T) {
	rules := map[string]*regexp.Regexp{
		"../Dockerfile":                   regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(scratch|\S+:\S+@sha256:[0-9a-f]{64})( AS \w+)?$`),
		"../packaging/release.Dockerfile": regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(scratch|\S+:\S+@sha256:[0-9a-f]{64})( AS \w+)?$`),
	}
	workflows, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil || len(workflows) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, path := range workflows {
		rules[path] = regexp.MustCompile(`uses: (\./\S+$|\S+@[0-9a-f]{40} # v\d)`)
	}
	for path, pinned := range rules {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for line := range strings.Lines(string(data)) {
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(line, "FROM ") || strings.Contains(line, "uses: ") {
				found++
				if !pinned.MatchString(line) {
					t.Errorf("%s: not pinned: %s", path, line)
				}
			}
			if strings.Contains(line, "@latest") {
				t.Errorf("%s: not pinned: %s", path, line)
			}
		}
		if found == 0 {
			t.Errorf("%s has nothing to pin", path)
		}
	}
}

// manifestCaddyfile returns the Caddyfile in a file of manifests, and writes the other files of its ConfigMap to dir.
func manifestCaddyfile(t *testing.T, manifests, dir string) (content string) {
	t.Helper()
	for _, document := range yamlDocuments(t, manifests) {
		if document["kind"] != "ConfigMap" {
			continue
		}
		for name, file := range document["data"].(map[string]any) {
			text := strings.ReplaceAll(file.(string), "/etc/caddy/", dir+"/")
			if name == "Caddyfile" {
				content = text
				continue
			}
			writeFile(t, filepath.Join(dir, name), text)
		}
	}
	return content
}

// TestPackaging_chart_has_valid_Caddyfiles validates the Caddyfile of each set of values with Caddy.
func TestPackaging_chart_has_valid_Caddyfiles(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../testdata/helm/golden/*.yaml")
	if err != nil || len(paths) < 5 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	document, err := os.ReadFile("../testdata/demo.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, "../examples/kubernetes/fairway.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			config := filepath.Join(dir, "Caddyfile")
			content := manifestCaddyfile(t, path, dir)
			if string(caddyfile.Format([]byte(content))) != content {
				t.Errorf("the Caddyfile is not formatted:\n%s", content)
			}
			// A ConfigMap and a Secret that are not in the manifests.
			writeFile(t, config, strings.NewReplacer("/etc/fairway/", dir+"/", "/run/secrets/api/", dir+"/").Replace(content))
			writeFile(t, filepath.Join(dir, "openapi.yaml"), string(document))
			writeFile(t, filepath.Join(dir, "token"), "a-token-of-the-API")
			store := "redis://db:6379/0"
			if strings.Contains(content, "store postgres") {
				store = "postgres://db/fairway"
			}
			cmd := exec.Command(caddy, "validate", "--config", config)
			cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, "API_TOKEN=a-token-of-the-API",
				"AUDIT_SECRET=a-secret-of-the-archive", "ADA_KEY=0123456789abcdef-ada", "MCP_SECRET=one-secret-of-all-pods", "STORE_URL="+store)
			output, err := cmd.CombinedOutput()
			if err != nil && bytes.Contains(output, []byte(`unknown module \"postgres\"`)) {
				testkit.Missing(t, "this Caddy has no store postgres")
			}
			if err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

// TestPackaging_first_Caddyfile runs the configuration of the packages for Debian and Fedora.
func TestPackaging_first_Caddyfile(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../packaging/systemd/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	if string(caddyfile.Format(data)) != string(data) {
		t.Error("the Caddyfile is not formatted")
	}
	document, err := filepath.Abs("../packaging/systemd/example.openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	config := strings.NewReplacer("/usr/share/fairway/example.openapi.yaml", document, "http://localhost:8080 {", "http://"+address+" {\n\totc /otc api",
		"default_bind 127.0.0.1", "default_bind 127.0.0.1\n\tadmin off").Replace(string(data))
	n := startBrittle(t, t.TempDir(), address, config)
	if response, body := n.mcp(t, "/mcp", "tools/call", `"name":"getTime"`); response.StatusCode != http.StatusOK || !strings.Contains(body, "time") || strings.Contains(body, `"isError":true`) {
		t.Errorf("the tool of the example: %s %s", response.Status, body)
	}
	command := exec.Command(caddy, "agents", "ready", n.url+"/health/ready")
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("agents ready: %v\n%s", err, output)
	}
}

// TestPackaging_release_notes checks that a version without a section in the changelog cannot be released.
func TestPackaging_release_notes(t *testing.T) {
	notes := func(version string) string {
		output, _ := exec.Command("sh", "../packaging/release-notes.sh", version).Output()
		return string(output)
	}
	changelog, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?m)^## \[?([^\] \n]+)`).FindSubmatch(changelog)
	if section == nil {
		t.Fatal("CHANGELOG.md has no section")
	}
	version := "v" + string(section[1])
	if version == "vUnreleased" {
		version = "v99.0.0-rc.1"
	}
	if got := notes(version); !strings.Contains(got, "- ") || strings.Contains(got, "\n## ") {
		t.Errorf("the notes of %s are %.300q", version, got)
	}
	if got := notes("v99.0.0"); got != "" {
		t.Errorf("the notes of an unknown version are %.300q", got)
	}
}

// TestPackaging_the_Kubernetes_manifests checks what Kubernetes itself does not check.
func TestPackaging_the_Kubernetes_manifests(t *testing.T) {
	kinds := make(map[string]int)
	for _, file := range []string{"fairway.yaml", "redis.yaml"} {
		for _, document := range yamlDocuments(t, "../examples/kubernetes/"+file) {
			kind := document["kind"].(string)
			kinds[kind]++
			text, err := yaml.Marshal(document)
			if err != nil {
				t.Fatal(err)
			}
			for _, image := range regexp.MustCompile(`image: (\S+)`).FindAllStringSubmatch(string(text), -1) {
				if !regexp.MustCompile(`:\d+\.\d+\.\d+$`).MatchString(image[1]) {
					t.Errorf("%s: the image %s has no version", file, image[1])
				}
			}
			if kind != "Deployment" {
				continue
			}
			if _, fixed := document["spec"].(map[string]any)["replicas"]; fixed {
				t.Error("replicas are set beside the autoscaler")
			}
			for _, path := range []string{"/health/live", "/health/ready"} {
				if !strings.Contains(string(text), "path: "+path) {
					t.Errorf("no probe of %s", path)
				}
			}
		}
	}
	if kinds["Secret"] > 0 {
		t.Error("a Secret is in a file that is applied again")
	}
	for _, kind := range []string{"NetworkPolicy", "PodDisruptionBudget", "HorizontalPodAutoscaler"} {
		if kinds[kind] == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
}

// TestPackaging_pods_of_Kubernetes runs the Caddyfile of the manifests as two processes with one Redis and no
// common disk, behind a login.
func TestPackaging_pods_of_Kubernetes(t *testing.T) {
	t.Parallel() // it mostly waits
	redis, _ := storetest.Redis(t)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, "[]") }))
	defer api.Close()
	start := func() (n *brittleNode, probes, admin string) {
		dir, address, health := t.TempDir(), freeAddress(t), freeAddress(t)
		_, port, _ := net.SplitHostPort(freeAddress(t))
		admin = net.JoinHostPort("localhost", port)
		config := strings.NewReplacer(
			":8080 {", "http://"+address+" {\n\tagent_auth {\n\t\tapi_key {\n\t\t\tkey ann 0123456789abcdef-ann\n\t\t}\n\t}\n\totc /otc api\n",
			":8081 {", "http://"+health+" {", "api:8080", strings.TrimPrefix(api.URL, "http://"), "shutdown_delay 10s", "shutdown_delay 3s", "admin localhost:2019", "admin "+admin,
		).Replace(manifestCaddyfile(t, "../examples/kubernetes/fairway.yaml", dir))
		return startBrittle(t, dir, address, config, "MCP_SECRET=one-secret-of-all-pods", "STORE_URL="+redis), "http://" + health, admin
	}
	first, firstProbes, _ := start()
	second, secondProbes, admin := start()
	for _, arguments := range [][]string{{"runs"}, {"user", "erase", "ann", "--yes"}} {
		command := exec.Command(caddy, append(append([]string{"agents"}, arguments...), "--address", admin)...)
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("agents %q: %v\n%s", arguments, err, output)
		}
	}
	response, body := first.mcp(t, "/mcp", "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)
	session := response.Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatalf("no session: %d %s", response.StatusCode, body)
	}
	list := func(n *brittleNode) int {
		response, _ := n.mcp(t, "/mcp", "tools/list", "", "Mcp-Session-Id", session)
		return response.StatusCode
	}
	probe := func(address string) int {
		response, err := stormClient.Get(address)
		if err != nil {
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	if status := list(second); status != http.StatusOK {
		t.Errorf("the session of one pod at the other: %d", status)
	}
	for _, path := range []string{"/health/live", "/health/ready", "/metrics"} {
		if status := probe(secondProbes + path); status != http.StatusOK {
			t.Errorf("%s without login: %d", path, status)
		}
	}
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, waitTimeout, "the pod that stops is not ready", func() bool { return probe(firstProbes+"/health/ready") == http.StatusServiceUnavailable })
	if status := list(first); status != http.StatusOK {
		t.Errorf("a request while the pod stops: %d", status)
	}
	<-first.ended
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
