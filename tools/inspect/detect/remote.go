package detect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/internal/webhook"
	"github.com/fairwayhq/fairway/tools/inspect"
)

// Presidio is the inspector that masks or rejects what an analyzer of Presidio finds. All texts of a message are one request to
// its endpoint /analyze.
type Presidio struct {
	PresidioOptions
	Client      *webhook.Client
	Reject      bool
	PassOnError bool // lets messages pass if the server does not respond
}

// PresidioOptions say what Presidio finds.
type PresidioOptions struct {
	// The language of the texts. Default: en.
	Language string `json:"language,omitempty"`

	// What is found, by Presidio's names, such as PERSON and LOCATION. Default: all that the analyzer knows.
	Entities []string `json:"entities,omitempty"`

	// The lowest score of what is found, from 0 to 1. Default: 0, the analyzer decides.
	Threshold float64 `json:"threshold,omitempty"`
}

// Limits of servers that analyze texts.
const (
	maxAnalysis = 4 << 20 // bytes of a response
	maxLabel    = 32      // bytes
)

// Defaults of the options.
const (
	defaultLanguage   = "en"
	defaultModeration = "omni-moderation-latest"
)

type presidioRequest struct {
	Text      string   `json:"text"`
	Language  string   `json:"language"`
	Entities  []string `json:"entities,omitempty"`
	Threshold float64  `json:"score_threshold,omitempty"`
}

// presidioResult is a value that was found. Start and End count code points.
type presidioResult struct {
	Type  string  `json:"entity_type"`
	Start int     `json:"start"`
	End   int     `json:"end"`
	Score float64 `json:"score"`
}

// Inspect implements Inspector.
func (p *Presidio) Inspect(ctx context.Context, m *inspect.Message) (inspect.Verdict, error) {
	return unlessError(ctx, p.PassOnError, func() (inspect.Verdict, error) {
		var c collector
		c.search(p.Reject).verdict(m)
		if len(c.texts) == 0 {
			return inspect.Verdict{}, nil
		}
		joined := strings.Join(c.texts, separator)
		var results []presidioResult
		if err := ask(ctx, p.Client, presidioRequest{joined, cmp.Or(p.Language, defaultLanguage), p.Entities, p.Threshold}, &results); err != nil {
			return inspect.Verdict{}, err
		}
		hits, err := p.hits(joined, results)
		if err != nil || len(hits) == 0 {
			return inspect.Verdict{}, err
		}
		c.assign(hits)
		return c.search(p.Reject).verdict(m), nil
	})
}

// hits returns the results as hits in bytes, ordered, without overlaps.
func (p *Presidio) hits(joined string, results []presidioResult) ([]hit, error) {
	positions := make([]int, 0, len(joined)+1)
	for i := range joined {
		positions = append(positions, i)
	}
	positions = append(positions, len(joined))
	var hits []hit
	for _, r := range results {
		if r.Start < 0 || r.End <= r.Start || r.End >= len(positions) {
			return nil, errors.New("the response of Presidio has a position outside of the text")
		}
		if r.Score < p.Threshold {
			continue
		}
		hits = append(hits, hit{Start: positions[r.Start], End: positions[r.End], Label: labelOf(r.Type)})
	}
	return merged(hits), nil
}

// labelOf returns the type of an entity as a label: EMAIL_ADDRESS is email-address.
func labelOf(entity string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, text.Cut(entity, maxLabel))
}

// Moderation is the inspector that rejects messages in which a moderation API finds something. The API has the format of OpenAI.
type Moderation struct {
	ModerationOptions
	Client      *webhook.Client
	PassOnError bool
}

// ModerationOptions say what a moderation API rejects.
type ModerationOptions struct {
	// The model. Default: omni-moderation-latest.
	Model string `json:"model,omitempty"`

	// The categories that are rejected, such as violence and self-harm/intent. Default: all that the API flags.
	Categories []string `json:"categories,omitempty"`
}

// maxInput limits one input of a moderation request, in bytes. Longer texts are several inputs.
const maxInput = 8 << 10

type moderationRequest struct {
	Model string   `json:"model"`
	Input []string `json:"input"`
}

type moderationResponse struct {
	Results []struct {
		Flagged    *bool           `json:"flagged"`
		Categories map[string]bool `json:"categories"`
	} `json:"results"`
}

// Inspect implements Inspector.
func (o *Moderation) Inspect(ctx context.Context, m *inspect.Message) (inspect.Verdict, error) {
	return unlessError(ctx, o.PassOnError, func() (inspect.Verdict, error) {
		var c collector
		c.search(false).verdict(m)
		request := moderationRequest{Model: cmp.Or(o.Model, defaultModeration)}
		for rest := strings.Join(c.texts, separator); rest != ""; {
			end := min(len(rest), maxInput)
			for end < len(rest) && end > maxInput-utf8.UTFMax && !utf8.RuneStart(rest[end]) {
				end--
			}
			request.Input, rest = append(request.Input, rest[:end]), rest[end:]
		}
		if len(request.Input) == 0 {
			return inspect.Verdict{}, nil
		}
		var response moderationResponse
		if err := ask(ctx, o.Client, request, &response); err != nil {
			return inspect.Verdict{}, err
		}
		if len(response.Results) != len(request.Input) {
			return inspect.Verdict{}, fmt.Errorf("the moderation API responds with %d results to %d inputs", len(response.Results), len(request.Input))
		}
		return o.verdict(response)
	})
}

func (o *Moderation) verdict(response moderationResponse) (v inspect.Verdict, err error) {
	for _, r := range response.Results {
		if r.Flagged == nil {
			return v, errors.New("the moderation API responds without flagged")
		}
		v.Rejected = v.Rejected || *r.Flagged && len(o.Categories) == 0
		for category, found := range r.Categories {
			if !found || len(o.Categories) > 0 && !slices.Contains(o.Categories, category) {
				continue
			}
			v.Rejected = true
			if label := text.Cut(category, maxLabel); len(v.Labels) < maxLabels && !slices.Contains(v.Labels, label) {
				v.Labels = append(v.Labels, label)
			}
		}
	}
	slices.Sort(v.Labels)
	return v, nil
}

// ask sends a request as JSON, and decodes the response.
func ask(ctx context.Context, client *webhook.Client, request, response any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	_, answer, err := client.Ask(ctx, "application/json", body, maxAnalysis)
	if err != nil {
		return err
	}
	if json.Unmarshal(answer, response) != nil {
		return errors.New("the response of the server is not of the expected format")
	}
	return nil
}

// separator separates the texts of a message in one request.
const separator = "\n"

// A collector is a Detector for servers. The first search collects the texts of a message. After assign, a second one finds
// what the server has found in them.
type collector struct {
	texts []string // without repetitions
	seen  map[string]bool
	hits  map[string][]hit // by text; nil in the first search
}

func (c *collector) search(reject bool) *search {
	s := searchOf(inspect.Chain{{Inspector: Detect(c, reject), Phases: inspect.Phases[:1]}}, inspect.Phases[0])
	s.every = anyTrait &^ hasEscape
	return s
}

// wants implements Detector.
func (*collector) wants(traits, nameKind) bool { return true }

// find implements Detector.
func (c *collector) find(hits []hit, _ nameKind, content []byte) []hit {
	if c.hits == nil && !c.seen[string(content)] {
		if c.seen == nil {
			c.seen = make(map[string]bool)
		}
		c.texts = append(c.texts, string(content))
		c.seen[c.texts[len(c.texts)-1]] = true
	}
	return append(hits, c.hits[string(content)]...)
}

// assign sets the hits in the joined texts. One that goes over the end of a text is one hit in each.
func (c *collector) assign(all []hit) {
	c.hits = make(map[string][]hit)
	start := 0
	for _, content := range c.texts {
		end := start + len(content)
		for len(all) > 0 && all[0].Start < end {
			h := all[0]
			from, to := max(h.Start, start)-start, min(h.End, end)-start
			if from < to {
				c.hits[content] = append(c.hits[content], hit{Start: from, End: to, Label: h.Label})
			}
			if h.End > end {
				break
			}
			all = all[1:]
		}
		start = end + len(separator)
	}
}
