package library

import (
	"strings"
	"testing"
)

func TestLocale_is_looked_up(t *testing.T) {
	locales := []string{"en", "de", "de-AT", "zh-Hant", "pt-BR"}
	for wanted, want := range map[string]string{
		"de": "de", "DE": "de", "de-CH": "de", "de-at": "de-AT", "de-AT-1996": "de-AT", "de_AT": "de-AT",
		"zh-Hant-TW": "zh-Hant", "zh": "en", "zh-Hans": "en", "pt": "en", "pt-BR": "pt-BR",
		"de-AT-x-private": "de-AT", "de-u-co-phonebk": "de", "x-private": "en", "fr-FR": "en",
		"": "en", "*": "en", "-": "en", "de-": "en", "a b": "en", "de\r\nX: y": "en", strings.Repeat("de-", 100): "en",
	} {
		if got := lookup(wanted, locales); got != want {
			t.Errorf("%q is %q, want %q", wanted, got, want)
		}
	}
}
