package review

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/oagent/engagement"
)

// Limits on texts about changed inputs, in bytes.
const (
	maxChange  = 100 // of one value
	maxChanges = 1000
)

// ApproveEdited approves a call with other inputs, which must be valid for the tool. See DecideBy. The error is ErrNotEditable if the
// inputs of the review cannot be changed.
func (q *Queue) ApproveEdited(ctx context.Context, id, reviewer string, by engagement.Decider, inputs jsontext.Value, comment string) (*Review, error) {
	r, err := q.Get(ctx, id, reviewer)
	switch {
	case err != nil:
		return nil, err
	case !r.Editable:
		return nil, ErrNotEditable
	case Equal(inputs, r.Inputs):
		inputs = nil
	}
	return q.decide(ctx, id, reviewer, by, engagement.ReviewApproved, comment, inputs)
}

// Canonical returns inputs in the form of which hashes are made. Inputs that differ only in member order, whitespace or escapes have
// the same form. Inputs that differ in how a number is written do not.
func Canonical(inputs jsontext.Value) jsontext.Value {
	canonical := inputs.Clone()
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return inputs // not canonical: at least equal bytes have equal hashes
	}
	return canonical
}

// Equal reports whether two inputs have the same canonical form.
func Equal(a, b jsontext.Value) bool { return bytes.Equal(Canonical(a), Canonical(b)) }

// hashOf returns the hash of edited inputs, or "" for none.
func hashOf(edited jsontext.Value) string {
	if edited == nil {
		return ""
	}
	return engagement.Digest(string(Canonical(edited)))
}

// Changes describes what differs in two inputs: "amount from 480 to 300, note removed".
func Changes(before, after jsontext.Value) string { return changes(before, after, true) }

// changedNames returns the names of the arguments that differ.
func changedNames(before, after jsontext.Value) string {
	return "changed " + changes(before, after, false)
}

func changes(before, after jsontext.Value, values bool) string {
	was, _ := strictjson.Members(nil, before)
	is, _ := strictjson.Members(nil, after)
	var all []string
	add := func(name string, words ...string) {
		if !values {
			words = nil
		}
		all = append(all, strings.Join(append([]string{text.Cut(name, maxChange)}, words...), " "))
	}
	for _, m := range was {
		switch i := slices.IndexFunc(is, func(other strictjson.Member) bool { return other.Name == m.Name }); {
		case i < 0:
			add(m.Name, "removed")
		case !Equal(m.Value, is[i].Value):
			add(m.Name, "from", text.Cut(string(m.Value), maxChange), "to", text.Cut(string(is[i].Value), maxChange))
		}
	}
	for _, m := range is {
		if !slices.ContainsFunc(was, func(other strictjson.Member) bool { return other.Name == m.Name }) {
			add(m.Name, "added as", text.Cut(string(m.Value), maxChange))
		}
	}
	return text.Cut(strings.Join(all, ", "), maxChanges)
}
