package console

import (
	"bytes"
	"html/template"
	"net/url"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	gtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"github.com/fairwayhq/fairway/internal/text"
)

// Limits of texts that are rendered as Markdown, in bytes.
const (
	maxMarkdown = 8 << 10 // longer texts are shown as they are; parsing hostile ones takes quadratic time
	maxSummary  = 160     // of a description in a list
)

// markdown returns the converter of descriptions: paragraphs, headings (as bold text), lists, code, emphasis and links. All
// else, such as HTML and images, is text. So descriptions cannot load anything or change the structure of a page.
var markdown = sync.OnceValue(func() goldmark.Markdown {
	const first, second, third, fourth, fifth = 100, 200, 300, 400, 500
	parse := parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewSetextHeadingParser(), first), util.Prioritized(listParser{parser.NewListParser()}, second), util.Prioritized(parser.NewListItemParser(), third),
			util.Prioritized(parser.NewATXHeadingParser(), fourth), util.Prioritized(parser.NewFencedCodeBlockParser(), fourth+1), util.Prioritized(parser.NewParagraphParser(), fifth),
		),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), first), util.Prioritized(parser.NewLinkParser(), second),
			util.Prioritized(parser.NewAutoLinkParser(), third), util.Prioritized(parser.NewEmphasisParser(), fourth),
		),
	)
	render := renderer.NewRenderer(renderer.WithNodeRenderers(util.Prioritized(linkRenderer{}, first), util.Prioritized(html.NewRenderer(), second)))
	return goldmark.New(goldmark.WithParser(parse), goldmark.WithRenderer(render))
})

// maxLists limits how deep lists can be nested. The depth of the stack and the time to parse grow with it.
const maxLists = 4

// listParser is a parser of lists that are not nested too deep.
type listParser struct{ parser.BlockParser }

// Open implements parser.BlockParser.
func (p listParser) Open(parent ast.Node, reader gtext.Reader, pc parser.Context) (ast.Node, parser.State) {
	depth := 0
	for n := parent; n != nil; n = n.Parent() {
		if n.Kind() == ast.KindList {
			depth++
		}
	}
	if depth >= maxLists {
		return nil, parser.NoChildren
	}
	return p.BlockParser.Open(parent, reader, pc)
}

// renderMarkdown returns a description as HTML.
func renderMarkdown(source string) template.HTML {
	var b bytes.Buffer
	if len(source) > maxMarkdown || markdown().Convert([]byte(source), &b) != nil {
		return template.HTML(`<p class="plain">` + template.HTMLEscapeString(source) + "</p>") //nolint:gosec // escaped
	}
	return template.HTML(b.String()) //nolint:gosec // the converter escapes all texts, and has no raw HTML
}

// summary returns the first paragraph of a description as one short line without Markdown.
func summary(source string) string {
	source = text.Cut(source, maxSummary*4) //nolint:mnd // the marks and addresses that are left out
	root := markdown().Parser().Parse(gtext.NewReader([]byte(source)))
	var b strings.Builder
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch leaf := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(leaf.Value([]byte(source)))
				if leaf.SoftLineBreak() || leaf.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(leaf.Value)
			}
		case *ast.AutoLink:
			if entering {
				b.Write(leaf.Label([]byte(source)))
			}
		}
		if !entering && n.Type() == ast.TypeBlock && b.Len() > 0 {
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return text.Cut(strings.TrimSpace(b.String()), maxSummary)
}

// linkRenderer renders what the renderer of the library would let load or structure something.
type linkRenderer struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (linkRenderer) RegisterFuncs(register renderer.NodeRendererFuncRegisterer) {
	register.Register(ast.KindLink, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		writeLink(w, string(n.(*ast.Link).Destination), entering)
		return ast.WalkContinue, nil
	})
	register.Register(ast.KindImage, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		writeLink(w, string(n.(*ast.Image).Destination), entering)
		return ast.WalkContinue, nil
	})
	register.Register(ast.KindAutoLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		link := n.(*ast.AutoLink)
		if writeLink(w, string(link.URL(source)), entering); entering {
			_, _ = w.Write(util.EscapeHTML(link.Label(source)))
		}
		return ast.WalkContinue, nil
	})
	register.Register(ast.KindHeading, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString("<p><strong>")
		} else {
			_, _ = w.WriteString("</strong></p>\n")
		}
		return ast.WalkContinue, nil
	})
}

// writeLink writes the beginning or the end of a link. An address that is not absolute, or has another scheme than http and https, is
// no link: the text stays.
func writeLink(w util.BufWriter, address string, entering bool) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
	case entering:
		_, _ = w.WriteString(`<a rel="noopener noreferrer nofollow" href="` + template.HTMLEscapeString(u.String()) + `">`)
	default:
		_, _ = w.WriteString("</a>")
	}
}
