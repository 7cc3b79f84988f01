package otcadapter

import (
	"fmt"
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
		if part == "" {
			part = "0"
		}
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

// compareVersions returns a positive number if a is newer than b. Runs of digits are compared
// as numbers, other characters as text.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		m, n := leadingDigits(a), leadingDigits(b)
		if m == 0 || n == 0 {
			if a[0] != b[0] {
				return int(a[0]) - int(b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		if order := compareNumbers(a[:m], b[:n]); order != 0 {
			return order
		}
		a, b = a[m:], b[n:]
	}
	return len(a) - len(b)
}

// compareNumbers compares two numbers of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// requestedVersion returns the version that a tool id requests: x means x.0.0 (OXP, Tool Version
// Resolution).
func requestedVersion(version string) string {
	if leadingDigits(version) == len(version) {
		return semver(version)
	}
	return version
}
