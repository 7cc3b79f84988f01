package agentset

import (
	"testing"

	"github.com/fairwayhq/fairway/tools"
)

func toolWith(arguments ...tools.Argument) *tools.Tool {
	for i := range arguments {
		if arguments[i].Schema == nil {
			arguments[i].Schema = []byte(`{"type":"string"}`)
		}
	}
	return &tools.Tool{Name: "check", Definition: tools.Definition{Arguments: arguments}}
}

func TestGuardrail_arguments(t *testing.T) {
	number := []byte(`{"type":"integer"}`)
	for _, test := range []struct {
		name          string
		tool          *tools.Tool
		input, output string // the arguments; "" if there is an error
	}{
		{"by name", toolWith(tools.Argument{Name: "lang"}, tools.Argument{Name: "text", Required: true}), `{"text":"I"}`, `{"text":"O"}`},
		{"the only one", toolWith(tools.Argument{Name: "utterance"}, tools.Argument{Name: "n", Schema: number}), `{"utterance":"I"}`, `{"utterance":"O"}`},
		{"the only one required", toolWith(tools.Argument{Name: "a", Required: true}, tools.Argument{Name: "b"}), `{"a":"I"}`, `{"a":"O"}`},
		{"both sides", toolWith(tools.Argument{Name: "prompt"}, tools.Argument{Name: "completion", Required: true}), ``, `{"prompt":"I","completion":"O"}`},
		{"a number is no text", toolWith(tools.Argument{Name: "input", Schema: number}), ``, ``},
		{"one more is required", toolWith(tools.Argument{Name: "text"}, tools.Argument{Name: "n", Schema: number, Required: true}), ``, ``},
		{"which one is not clear", toolWith(tools.Argument{Name: "a"}, tools.Argument{Name: "b"}), ``, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := func(a textArguments, err error, input, output, want string) {
				t.Helper()
				switch {
				case want == "" && err == nil:
					t.Errorf("there is no error")
				case want == "":
				case err != nil:
					t.Error(err)
				case string(a.JSON(input, output)) != want:
					t.Errorf("arguments %s, want %s", a.JSON(input, output), want)
				}
			}
			a, err := inputArguments(test.tool)
			check(a, err, "I", "", test.input)
			a, err = outputArguments(test.tool)
			check(a, err, "I", "O", test.output)
		})
	}
}
