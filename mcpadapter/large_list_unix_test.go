//go:build unix

package mcpadapter

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/testkit"
	"github.com/fairwayhq/fairway/mcpadapter/internal/catalog"
	"github.com/fairwayhq/fairway/mcpadapter/internal/protocol"
	"github.com/fairwayhq/fairway/tools"
	toolschema "github.com/fairwayhq/fairway/tools/schema"
)

// What a list may take, however large the document is.
const (
	maxList   = 10_000_000 // bytes of all pages
	maxMemory = 300 << 20  // bytes of the process
)

// largeDocuments are documents whose operations share most of their schemas.
var largeDocuments = map[string]testkit.WideOptions{
	"3MB":             {Operations: 400, Schemas: 500, Properties: 36, Description: 110},
	"16MB/schemas":    {Operations: 600, Schemas: 2150, Properties: 40, Description: 110},
	"16MB/operations": {Operations: 12_000, Schemas: 1830, Properties: 30, Description: 90},
	"16MB/arguments":  {Operations: 3000, Schemas: 2900, Properties: 30, Description: 90},
	"16MB/texts":      {Operations: 1500, Schemas: 20, Properties: 10, Description: 8000},
}

// largeListChild is the environment variable that makes a process measure a list.
const largeListChild = "FAIRWAY_TEST_LARGE_LIST"

func TestMain(m *testing.M) {
	if os.Getenv(largeListChild) == "" {
		testkit.CollectRarely()
	}
	os.Exit(m.Run())
}

// lists returns the pages of the list of a Toolset.
func lists(toolset *tools.Toolset, o Options) [][]byte {
	return New(o).newCatalog(toolset).Pages(protocol.V20251125)
}

// TestList_of_a_large_document_is_bounded in size and memory, which a process of
// its own measures.
func TestList_of_a_large_document_is_bounded(t *testing.T) {
	if asked := os.Getenv(largeListChild); asked != "" {
		mode, file, _ := strings.Cut(asked, " ")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		o := tools.BuildOptions{ResponseSchemas: mode != "off"}
		toolset, err := tools.Build(data, o)
		if err != nil {
			t.Fatal(err)
		}
		size, pages := 0, lists(toolset, Options{OutputSchema: OutputSchema(mode)})
		for _, page := range pages {
			if !strictjson.Valid([]byte("{" + strings.TrimSuffix(string(page), "}"))) {
				t.Error("a page is no JSON")
			}
			if size += len(page); len(page) > catalog.MaxPageBytes+1<<20 {
				t.Errorf("a page has %d bytes", len(page))
			}
		}
		fmt.Printf("document %d bytes, %d tools, list %d bytes, %d pages\n", len(data), len(toolset.Tools()), size, len(pages))
		if len(toolset.Tools()) != toolset.Report.Operations || size > maxList {
			t.Errorf("%d tools of %d operations, %d bytes", len(toolset.Tools()), toolset.Report.Operations, size)
		}
		return
	}
	for name, options := range largeDocuments {
		switch {
		case testing.Short():
			t.Skip("a list of 16 MB takes long")
		case raceDetector && name != "3MB":
			continue // .ci/run runs this test without the race detector, which is slow here
		case !raceDetector && name != "16MB/schemas" && !testkit.Night():
			continue
		}
		file := filepath.Join(t.TempDir(), "wide.json")
		if err := os.WriteFile(file, testkit.WideDocument(options), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []OutputSchema{OutputOff, OutputLoose} {
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				self, err := os.Executable()
				if err != nil {
					t.Fatal(err)
				}
				command := exec.CommandContext(t.Context(), self, "-test.run=^TestList_of_a_large_document_is_bounded$", "-test.v")
				command.Env = append(os.Environ(), largeListChild+"="+string(mode)+" "+file)
				out, err := command.CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				usage, ok := command.ProcessState.SysUsage().(*syscall.Rusage)
				if !ok || raceDetector || runtime.GOOS != "linux" {
					t.Log("the memory of a process is not measured on this system, nor with the race detector")
					return
				}
				peak := usage.Maxrss << 10
				t.Logf("peak %d MB; %s", peak>>20, out)
				if peak > maxMemory {
					t.Errorf("the process took %d MB", peak>>20)
				}
			})
		}
	}
}

// TestList_of_real_documents_is_bounded with and without the schemas of answers.
func TestList_of_real_documents_is_bounded(t *testing.T) {
	for name := range testkit.Documents() {
		data := testkit.ReadDocument(t, "openapi/"+name+".gz")
		toolset, err := tools.Build(data, tools.BuildOptions{ResponseSchemas: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, mode := range []OutputSchema{OutputOff, OutputLoose, OutputStrict} {
			size := 0
			pages := lists(toolset, Options{OutputSchema: mode})
			for _, page := range pages {
				size += len(page)
			}
			t.Logf("%s %s: %d bytes in %d pages", name, mode, size, len(pages))
			if size > maxList {
				t.Errorf("%s %s: the list has %d bytes", name, mode, size)
			}
		}
	}
}

// TestSchemas_auto_is_inline within a budget. Above it, it is never larger than the other two.
func TestSchemas_auto_is_inline_within_a_budget(t *testing.T) {
	const budget = 32 << 10 // bytes
	documents := map[string][]byte{"wide": testkit.WideDocument(testkit.WideOptions{Operations: 40, Schemas: 60, Properties: 12, Description: 20})}
	for name := range testkit.Documents() {
		documents[name] = testkit.ReadDocument(t, "openapi/"+name+".gz")
	}
	for name, data := range documents {
		built := make(map[toolschema.Mode]*tools.Toolset)
		for _, mode := range []toolschema.Mode{toolschema.Auto, toolschema.Defs, toolschema.Inline} {
			toolset, err := tools.Build(data, tools.BuildOptions{Schemas: mode, MaxSchema: -1})
			if err != nil {
				t.Fatal(err)
			}
			built[mode] = toolset
		}
		for _, called := range built[toolschema.Auto].Tools() {
			size := len(called.Definition.InputSchema)
			inline, _ := built[toolschema.Inline].Tool(called.Name)
			defs, _ := built[toolschema.Defs].Tool(called.Name)
			if len(inline.Definition.InputSchema) <= budget*9/10 && size != len(inline.Definition.InputSchema) {
				t.Errorf("%s %s: auto takes %d bytes, inline %d", name, called.Name, size, len(inline.Definition.InputSchema))
			}
			if size > max(budget, min(len(defs.Definition.InputSchema), len(inline.Definition.InputSchema))) {
				t.Errorf("%s %s: auto takes %d bytes, defs %d, inline %d", name, called.Name, size, len(defs.Definition.InputSchema), len(inline.Definition.InputSchema))
			}
		}
	}
}
