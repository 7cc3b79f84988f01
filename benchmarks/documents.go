package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/fairwayhq/fairway/tools"
)

// read is the main function of a child process that reads one document with one reader.
func read(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: benchmarks read fairway|kin FILE")
	}
	data, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	switch args[0] {
	case "fairway":
		toolset, err := tools.Build(data, tools.BuildOptions{Name: "benchmark", Location: args[1]})
		if err != nil {
			return err
		}
		fmt.Printf("%d tools\n", len(toolset.Tools()))
		runtime.KeepAlive(toolset)
	case "kin":
		document, err := openapi3.NewLoader().LoadFromData(data)
		if err != nil {
			return err
		}
		fmt.Printf("%d paths\n", document.Paths.Len())
		runtime.KeepAlive(document)
	default:
		return fmt.Errorf("no reader %q: fairway or kin", args[0])
	}
	return nil
}

// compareDocuments compares reading documents with loading them in kin-openapi.
func compareDocuments(ctx context.Context, t *table, dir string, s settings) error {
	t.section("Reading a document, beside kin-openapi loading it",
		"document", "CPU s kin / fw", "ratio", "target", "peak MB kin / fw", "ratio", "target")

	chains := filepath.Join(dir, "chains.json")
	if err := os.WriteFile(chains, chainDocument(), 0o600); err != nil {
		return err
	}
	documents := []struct{ name, path string }{{"exponential $ref graph", chains}}

	github := filepath.Join(dir, "github.json")
	switch err := unpackShared("github-api.github.com.json.gz", github); {
	case errors.Is(err, fs.ErrNotExist):
		t.note("GitHub: left out, its document is not in ../shared/openapi")
	case err != nil:
		return err
	default:
		documents = append(documents, struct{ name, path string }{"GitHub, 13 MB", github})
	}

	for _, d := range documents {
		if err := compareReading(ctx, t, d.name, d.path, s.reads); err != nil {
			return err
		}
	}
	return nil
}

// compareReading alternates between both readers for one document.
func compareReading(ctx context.Context, t *table, name, path string, reads int) error {
	var times, peaks []float64                           // ratios
	var kinTimes, kinPeaks, ownTimes, ownPeaks []float64 // absolute values, printed for information
	for range reads {
		kin, err := measureRead(ctx, "kin", path)
		if err != nil {
			return err
		}
		own, err := measureRead(ctx, "fairway", path)
		if err != nil {
			return err
		}
		times, peaks = append(times, own.cpu/kin.cpu), append(peaks, own.peak/kin.peak)
		kinTimes, kinPeaks = append(kinTimes, kin.cpu), append(kinPeaks, kin.peak)
		ownTimes, ownPeaks = append(ownTimes, own.cpu), append(ownPeaks, own.peak)
	}
	target := atMost(1.3)
	t.line(name,
		pairCell("%.2f", median(kinTimes), median(ownTimes)), ratioCell(times), target.verdict(median(times)),
		pairCell("%.0f", median(kinPeaks), median(ownPeaks)), ratioCell(peaks), target.verdict(median(peaks)))
	return nil
}

// usage is the resource usage of a child process.
type usage struct {
	cpu  float64 // seconds, user and system
	peak float64 // MB of resident memory
}

// measureRead reads the document once in a child process.
func measureRead(ctx context.Context, reader, path string) (usage, error) {
	self, err := os.Executable()
	if err != nil {
		return usage{}, err
	}
	cmd := exec.CommandContext(ctx, self, "read", reader, path)
	if out, err := cmd.CombinedOutput(); err != nil {
		return usage{}, fmt.Errorf("%s reading %s: %w: %s", reader, filepath.Base(path), err, out)
	}
	state := cmd.ProcessState
	return usage{cpu: (state.UserTime() + state.SystemTime()).Seconds(), peak: peakMemory(state)}, nil
}
