package model

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairwayhq/fairway/internal/yamltree"
)

// Limits of a script.
const (
	MaxScript = 1 << 20 // bytes

	maxConversations = 1000
	maxSteps         = 100 // of a conversation
	maxDepth         = 32  // levels of lists and mappings
)

// conversation is what the model does after a message of the user.
type conversation struct {
	when  string // in lower case; "" for any message
	steps []step
}

// step is one message of the
type step struct {
	text  string
	calls []scriptedCall
}

type scriptedCall struct {
	name      string
	arguments *yaml.Node
}

// emptyMapping are the arguments of a call without any.
var emptyMapping = &yaml.Node{Kind: yaml.MappingNode}

// readScript reads a script:
//
//	conversations:
//	  - when: refund                  # the user's message contains it; default: any message
//	    steps:                        # required
//	      - text: I look at the trip. # text, calls or both
//	        calls:
//	          - name: get_trip        # required
//	            arguments: {trip_id: ir-1512, note: "{input}"}
//	      - text: The trip costs {result/price}.
//
// The first conversation whose condition holds is played; upper and lower case do not matter. The
// last step must have no calls, since the model would call its tools forever.
func readScript(data []byte) ([]conversation, error) {
	if len(data) > MaxScript {
		return nil, fmt.Errorf("the script is larger than %d bytes", MaxScript)
	}
	root, err := yamltree.Parse(data, yamltree.Options{MaxDepth: maxDepth})
	if err != nil {
		return nil, err
	}
	var conversations []conversation
	err = yamltree.ReadMembers(root, yamltree.Readers{"conversations": func(n *yaml.Node) error {
		return readItems(n, maxConversations, func(n *yaml.Node) error {
			c, err := readConversation(n)
			conversations = append(conversations, c)
			return err
		})
	}}, "conversations")
	return conversations, err
}

func readConversation(n *yaml.Node) (c conversation, err error) {
	err = yamltree.ReadMembers(n, yamltree.Readers{
		"when": func(n *yaml.Node) error {
			when, err := readText(n)
			c.when = strings.ToLower(when)
			return err
		},
		"steps": func(n *yaml.Node) error {
			return readItems(n, maxSteps, func(n *yaml.Node) error {
				s, err := readStep(n)
				c.steps = append(c.steps, s)
				return err
			})
		},
	}, "steps")
	if err == nil && len(c.steps[len(c.steps)-1].calls) > 0 {
		err = yamltree.At(n, errors.New("the last step of a conversation must have no calls: add one with a text"))
	}
	return c, err
}

func readStep(n *yaml.Node) (s step, err error) {
	err = yamltree.ReadMembers(n, yamltree.Readers{
		"text": func(n *yaml.Node) (err error) {
			s.text, err = readText(n)
			return err
		},
		"calls": func(n *yaml.Node) error {
			return readItems(n, MaxCalls, func(n *yaml.Node) error {
				c := scriptedCall{arguments: emptyMapping}
				err := yamltree.ReadMembers(n, yamltree.Readers{
					"name": func(n *yaml.Node) (err error) {
						c.name, err = readText(n)
						return err
					},
					"arguments": func(n *yaml.Node) error {
						c.arguments = n
						if n.Kind != yaml.MappingNode {
							return fmt.Errorf("expected a mapping, not %s", yamltree.Describe(n))
						}
						_, err := new(values).arguments(n)
						return err
					},
				}, "name")
				s.calls = append(s.calls, c)
				return err
			})
		},
	})
	if err == nil && s.text == "" && len(s.calls) == 0 {
		err = yamltree.At(n, errors.New("a step must have text or calls"))
	}
	return s, err
}

// readItems passes each item of a list to read. The list must not be empty.
func readItems(n *yaml.Node, most int, read func(*yaml.Node) error) error {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > most {
		return yamltree.At(n, fmt.Errorf("expected a list of 1 to %d items", most))
	}
	for _, item := range n.Content {
		if err := read(item); err != nil {
			return yamltree.At(item, err)
		}
	}
	return nil
}

func readText(n *yaml.Node) (string, error) {
	if !yamltree.IsString(n) || n.Value == "" {
		return "", fmt.Errorf("expected a text, not %s", yamltree.Describe(n))
	}
	return n.Value, nil
}
