package console

import (
	"strings"
	"testing"
	"time"
)

// TestMarkdown checks what descriptions become.
func TestMarkdown(t *testing.T) {
	for source, want := range map[string]string{
		"_a_ **b** `c<d`":                        "<p><em>a</em> <strong>b</strong> <code>c&lt;d</code></p>\n",
		"- a\n- b":                               "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n",
		"# Title":                                "<p><strong>Title</strong></p>\n",
		"[a](https://e.example/?x=1&y=\"2)":      `<p><a rel="noopener noreferrer nofollow" href="https://e.example/?x=1&amp;y=&#34;2">a</a></p>` + "\n",
		"<https://e.example/>":                   `<p><a rel="noopener noreferrer nofollow" href="https://e.example/">https://e.example/</a></p>` + "\n",
		"![picture](https://e.example/p.png)":    `<p><a rel="noopener noreferrer nofollow" href="https://e.example/p.png">picture</a></p>` + "\n",
		"[a](/rest/issues)":                      "<p>a</p>\n",
		"[a](javascript:alert(1))":               "<p>a</p>\n",
		"[a](JaVaScRiPt&colon;alert(1))":         "<p>a</p>\n",
		"[a](data:text/html,<script>)":           "<p>a</p>\n",
		"[a](//evil.example)":                    "<p>a</p>\n",
		"<script>alert(1)</script>":              "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n",
		"<img src=x onerror=alert(1)>":           "<p>&lt;img src=x onerror=alert(1)&gt;</p>\n",
		"`</code><script>`":                      "<p><code>&lt;/code&gt;&lt;script&gt;</code></p>\n",
		"[a]: javascript:alert(1)\n\n[a]":        "<p>[a]: javascript:alert(1)</p>\n<p>[a]</p>\n",
		"```\n</pre><script>alert(1)\n```":       "<pre><code>&lt;/pre&gt;&lt;script&gt;alert(1)\n</code></pre>\n",
		"```x\"><script>\n1\n```":                "<pre><code class=\"language-x&quot;&gt;&lt;script&gt;\">1\n</code></pre>\n",
		"> quote\n\n***":                         "<p>&gt; quote</p>\n<p>***</p>\n",
		"[a](https://e.example/ \"t\" onload=1)": "<p>[a](https://e.example/ &quot;t&quot; onload=1)</p>\n",
	} {
		if got := string(renderMarkdown(source)); got != want {
			t.Errorf("%q: got %q, want %q", source, got, want)
		}
	}
}

// TestMarkdown_is_bounded renders texts that make parsers slow or their results large. The time of the test limits it.
func TestMarkdown_is_bounded(t *testing.T) {
	for _, part := range []string{"[", "![", "*a ", "_a*", "`", "- ", "1. ", "> ", "#", "<", "[a](", "**a_", "\\", "&amp;", "  - a\n", "<a@b>"} {
		source := strings.Repeat(part, maxMarkdown/len(part))
		began := time.Now()
		rendered := renderMarkdown(source)
		t.Logf("%q: %v, %d bytes", part, time.Since(began), len(rendered))
		if len(rendered) > 20*maxMarkdown {
			t.Errorf("%q: %d bytes became %d", part, len(source), len(rendered))
		}
	}
	if got := string(renderMarkdown(strings.Repeat("<b>", maxMarkdown))); !strings.HasPrefix(got, `<p class="plain">&lt;b&gt;`) {
		t.Errorf("a long text: got %.40q", got)
	}
}

// TestSummary checks the line of a tool in a list.
func TestSummary(t *testing.T) {
	for source, want := range map[string]string{
		"Gets _a_ **trip**\nby [its id](https://e.example).\n\nMore.": "Gets a trip by its id.",
		"- one\n- two": "one", "<b>x</b>": "<b>x</b>", "": "",
	} {
		if got := summary(source); got != want {
			t.Errorf("%q: got %q, want %q", source, got, want)
		}
	}
}
