package otcadapter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// latestVersion is the version in a tool id that stands for the newest one.
const latestVersion = "latest"

// CheckVersion returns an error if the text is not a version of a toolkit: x.y.z in numbers
// (OXP, ToolId and ToolVersion).
func CheckVersion(version string) error {
	parts := strings.Split(version, ".")
	for _, part := range parts {
		if n := leadingDigits(part); n == 0 || n < len(part) || n > maxVersionPart {
			parts = nil
		}
	}
	if len(parts) == 3 {
		return nil
	}
	return fmt.Errorf("version %q is not three numbers separated by dots, such as %s", version, semver(version))
}

// semver converts a version of a document to x.y.z: "v2" becomes 2.0.0 and "2024-10-01-preview"
// becomes 2024.10.1. A version without a number becomes 1.0.0.
func semver(version string) string {
	start := strings.IndexFunc(version, func(r rune) bool { return r >= '0' && r <= '9' })
	if start < 0 {
		return "1.0.0"
	}
	parts := make([]string, 0, 3)
	rest := version[start:]
	for len(parts) < cap(parts) {
		digits := leadingDigits(rest)
		if digits == 0 {
			break
		}
		part := strings.TrimLeft(rest[:min(digits, maxVersionPart)], "0")
		part = cmp.Or(part, "0")
		parts = append(parts, part)
		rest = rest[digits:]
		if rest == "" || !strings.Contains(".-_", rest[:1]) {
			break
		}
		rest = rest[1:]
	}
	for len(parts) < cap(parts) {
		parts = append(parts, "0")
	}
	return strings.Join(parts, ".")
}

// leadingDigits returns the number of digits at the beginning of s.
func leadingDigits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// compareVersions returns a positive number if a is newer than b. Both have the form that semver returns.
func compareVersions(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		return cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)) // numbers without leading zeros
	})
}

// requestedVersion returns the version that a tool id requests: x means x.0.0 (OXP, Tool Version
// Resolution).
func requestedVersion(version string) string {
	if leadingDigits(version) == len(version) {
		return semver(version)
	}
	return version
}
