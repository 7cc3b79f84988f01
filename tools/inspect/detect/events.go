package detect

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/tools/inspect"
)

// A piece is a text of an event: a string of JSON, or a line that is no JSON.
type piece struct {
	start, end int    // in the body
	joined     int    // where it begins in the joined text
	text       string // decoded
	masked     bool
}

// events returns the body with the values masked that are found in the joined texts of events, and lie in several of them. The mask
// is in the first of these events, and the parts in the others are removed.
func (s *search) events(m *inspect.Message) (out []byte) {
	pieces, groups := piecesOf(m)
	for _, group := range groups {
		for i := 0; i < len(s.detections) && len(group) > 1; i++ {
			var joined []byte
			for _, p := range group {
				p.joined = len(joined)
				joined = append(joined, p.text...)
			}
			last := len(group) - 1
			for _, h := range slices.Backward(s.find(&s.detections[i], 0, joined, s.reading.read(joined))) {
				for group[last].joined >= h.End {
					last--
				}
				first := last
				for group[first].joined > h.Start {
					first--
				}
				if first == last {
					continue // it is found in the text of its event
				}
				s.note(&s.detections[i], h.Label)
				mask := "[" + h.Label + "]"
				for _, p := range group[first : last+1] {
					p.text = p.text[:max(h.Start-p.joined, 0)] + mask + p.text[min(h.End-p.joined, len(p.text)):]
					p.masked, mask = true, ""
				}
			}
		}
	}
	copied := 0
	for _, p := range pieces {
		if !p.masked {
			continue
		}
		out = append(out, m.Body[copied:p.start]...)
		if m.Body[p.start] == '"' {
			out = strictjson.AppendString(out, p.text)
		} else {
			out = append(out, p.text...)
		}
		copied = p.end
	}
	return append(out, m.Body[copied:]...)
}

// Bounds of paths, since each string of an event has one.
const (
	maxPath     = 12  // members and elements
	maxPathName = 128 // bytes; what follows a longer name is not joined
)

// piecesOf returns the texts of events, and those that belong together: lines that are no JSON, strings with the same path, and all
// texts of the content of an MCP result.
func piecesOf(m *inspect.Message) (pieces []*piece, groups map[uint64][]*piece) {
	groups = make(map[uint64][]*piece)
	seed := maphash.MakeSeed()
	add := func(path string, p *piece) {
		key := maphash.String(seed, path) // there may be many paths
		pieces, groups[key] = append(pieces, p), append(groups[key], p)
	}
	start := 0
	for line := range bytes.Lines(m.Body) {
		if m.JSON {
			line = m.Body[start:]
		}
		isJSON := line[0] == '"' || looksLikeJSON(line)
		if !isJSON {
			content := bytes.TrimRight(line, "\r\n")
			add("", &piece{start: start, end: start + len(content), text: string(content)})
		}
		for d, end := jsontext.NewDecoder(bytes.NewReader(line)), 0; isJSON; {
			token, err := d.ReadToken()
			if err != nil {
				break
			}
			quote := end + bytes.IndexByte(line[end:], '"')
			end = int(d.InputOffset())
			in, n := d.StackIndex(d.StackDepth())
			isName := in == '{' && n%2 == 1
			if isName && end > maxPathName+quote {
				break
			}
			if token.Kind() != '"' || isName || d.StackDepth() > maxPath {
				continue
			}
			path := string(d.StackPointer())
			if m.JSON && strings.HasPrefix(path, "/content/") && strings.HasSuffix(path, "/text") {
				path = "/content/text"
			}
			add(path, &piece{start: start + quote, end: start + end, text: token.String()})
		}
		if start += len(line); m.JSON {
			break
		}
	}
	return pieces, groups
}
