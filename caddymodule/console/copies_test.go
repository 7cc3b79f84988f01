package console

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/fairwayhq/fairway/tools"
)

// texts are values that are hard to quote.
var texts = []string{
	"", "plain", "two words", `quote " quote`, "it's", "back`tick", "back`tick and \" quote", `back\slash`, "line\nbreak", "# no comment", "{env.HOME}", "a{b}c", "}", "{",
	"<script>", "héllo ☃", "$HOME `id` $(id)", "'; rm -rf /; '", "-n", "\t", "trailing ", "\\", "`\\`", "{$HOME}", "\r",
}

// TestCaddyToken_reads_back checks that Caddy reads each token as the text.
func TestCaddyToken_reads_back(t *testing.T) {
	impossible := 0
	for _, text := range texts {
		token, ok := caddyToken(text)
		if !ok {
			impossible++
			continue
		}
		read, err := caddyfile.Tokenize([]byte("default "+token+"\n"), "Caddyfile")
		if err != nil || len(read) != 2 || read[1].Text != text {
			t.Errorf("%q: the token %s is read as %v, %v", text, token, read, err)
		}
	}
	if impossible > 3 {
		t.Errorf("%d texts cannot be written", impossible)
	}
}

// TestShellWord_reads_back checks that a shell reads each word as the text.
func TestShellWord_reads_back(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	for _, text := range texts {
		out, err := exec.Command(shell, "-c", "printf '%s.' "+shellWord(text)).Output()
		if err != nil || string(out) != text+"." {
			t.Errorf("%q: read as %q, %v", text, out, err)
		}
	}
}

// TestToolBlock_names_known_arguments checks that names and values of a caller cannot leave the block.
func TestToolBlock_names_known_arguments(t *testing.T) {
	t1 := &tools.Tool{Name: "get_trip", Definition: tools.Definition{Title: "Reads } a trip", Arguments: []tools.Argument{{Name: "id"}}}}
	block := toolBlock(t1, []byte(`{"id":"a }\n}\nrespond \"x\"","} respond":"x"}`), &shape{Select: "{id} }", MaxTokens: -1})
	tokens, err := caddyfile.Tokenize([]byte(block), "Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	words := make([]string, len(tokens))
	for i, token := range tokens {
		words[i] = token.Text
	}
	want := []string{"tool", "get_trip", "{", "title", "Reads } a trip", "argument", "id", "{", "default", "a }\n}\nrespond \"x\"", "}", "select", "{id} }", "max_tokens", "off", "}"}
	if strings.Join(words, "\x00") != strings.Join(want, "\x00") {
		t.Errorf("got %q, want %q", words, want)
	}
}

// FuzzFormArguments checks that the values of a form always become a JSON object with the names of the
// arguments only.
func FuzzFormArguments(f *testing.F) {
	for _, text := range texts {
		f.Add(text, byte(0))
		f.Add(text, byte(3))
	}
	f.Add(`{"a":[1]}`, byte(4))
	kinds := []string{inputText, inputNumber, inputSelect, inputArea, inputJSON}
	f.Fuzz(func(t *testing.T, value string, kind byte) {
		in := input{argument: argument{Name: "x"}, Kind: kinds[int(kind)%len(kinds)], Value: value}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(formArguments([]input{in}), &object); err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		for name := range object {
			if name != "x" {
				t.Errorf("%q: argument %q", value, name)
			}
		}
	})
}
