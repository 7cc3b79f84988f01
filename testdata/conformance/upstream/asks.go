package main

import "net/http"

// handleAsks serves what needs more from the client than its arguments.
func handleAsks(mux *http.ServeMux) {
	mux.HandleFunc("POST /sampling", rounds(askModel))
	mux.HandleFunc("POST /elicitation", rounds(askUser))
	mux.HandleFunc("POST /elicitation/defaults", rounds(askWithDefaults))
	mux.HandleFunc("POST /elicitation/enums", rounds(askWithChoices))
	mux.HandleFunc("POST /diagnostics/missing-capability", rounds(askModel))
	mux.HandleFunc("POST /diagnostics/elicitation", rounds(askToGoOn))

	mux.HandleFunc("POST /input/elicitation", rounds(greet))
	mux.HandleFunc("POST /input/sampling", rounds(askCapital))
	mux.HandleFunc("POST /input/list-roots", rounds(askRoots))
	mux.HandleFunc("POST /input/request-state", rounds(confirm))
	mux.HandleFunc("POST /input/tampered-state", rounds(confirm))
	mux.HandleFunc("POST /input/multiple", rounds(askThree))
	mux.HandleFunc("POST /input/multi-round", rounds(askTwice))
	mux.HandleFunc("POST /input/capabilities", rounds(askWhatIsPossible))
	mux.HandleFunc("POST /prompts/input-required", rounds(makePrompt))
}

func askModel(c *call) {
	answer, ok := c.responses["answer"]
	if !ok {
		prompt, _ := c.body["prompt"].(string)
		c.ask("", object{"answer": sampling(prompt, 100)})
		return
	}
	c.done("LLM response: %s", answer.message())
}

func askUser(c *call) {
	answer, ok := c.responses["user"]
	if !ok {
		message, _ := c.body["message"].(string)
		c.ask("", object{"user": elicitation(message, object{
			"username": object{"type": "string", "description": "User's response"},
			"email":    object{"type": "string", "description": "User's email address"},
		}, "username", "email")})
		return
	}
	c.done("User response: action=%s, content=%s", answer.Action, answer.Content)
}

func askWithDefaults(c *call) {
	answer, ok := c.responses["form"]
	if !ok {
		c.ask("", object{"form": elicitation("Please review the values.", object{
			"name":     object{"type": "string", "description": "User name", "default": "John Doe"},
			"age":      object{"type": "integer", "description": "User age", "default": 30},
			"score":    object{"type": "number", "description": "User score", "default": 95.5},
			"status":   object{"type": "string", "enum": []string{"active", "inactive", "pending"}, "default": "active"},
			"verified": object{"type": "boolean", "description": "Verified", "default": true},
		})})
		return
	}
	c.done("Elicitation completed: action=%s, content=%s", answer.Action, answer.Content)
}

func askWithChoices(c *call) {
	answer, ok := c.responses["form"]
	if !ok {
		options := []string{"option1", "option2", "option3"}
		titled := func(first, second, third string) []object {
			return []object{
				{"const": "value1", "title": first}, {"const": "value2", "title": second}, {"const": "value3", "title": third},
			}
		}
		c.ask("", object{"form": elicitation("Please choose.", object{
			"untitledSingle": object{"type": "string", "enum": options},
			"titledSingle":   object{"type": "string", "oneOf": titled("First Option", "Second Option", "Third Option")},
			"legacyEnum": object{
				"type": "string", "enum": []string{"opt1", "opt2", "opt3"},
				"enumNames": []string{"Option One", "Option Two", "Option Three"},
			},
			"untitledMulti": object{"type": "array", "items": object{"type": "string", "enum": options}},
			"titledMulti":   object{"type": "array", "items": object{"anyOf": titled("First Choice", "Second Choice", "Third Choice")}},
		})})
		return
	}
	c.done("Elicitation completed: action=%s, content=%s", answer.Action, answer.Content)
}

func askToGoOn(c *call) {
	if _, ok := c.responses["go_on"]; !ok {
		c.ask("", object{"go_on": elicitation("Go on?", one("ok", "boolean"), "ok")})
		return
	}
	c.done("Gone on.")
}

func greet(c *call) {
	name := c.responses["user_name"].form("name")
	if name == "" {
		c.ask("", object{"user_name": elicitation("What is your name?", one("name", "string"), "name")})
		return
	}
	c.done("Hello, %s!", name)
}

func askCapital(c *call) {
	answer, ok := c.responses["capital_question"]
	if !ok {
		c.ask("", object{"capital_question": sampling("What is the capital of France?", 100)})
		return
	}
	c.done("%s", answer.message())
}

func askRoots(c *call) {
	answer, ok := c.responses["client_roots"]
	if !ok {
		c.ask("", object{"client_roots": roots()})
		return
	}
	uris := make([]string, 0, len(answer.Roots))
	for _, root := range answer.Roots {
		uris = append(uris, root.URI)
	}
	c.done("The roots are %q.", uris)
}

// confirm gives a state that it wants back as it was. That no one changes it on
// the way is for the gateway to see to.
func confirm(c *call) {
	const state = "waiting for confirmation"
	if _, ok := c.responses["confirm"]; !ok {
		c.ask(state, object{"confirm": elicitation("Please confirm", one("ok", "boolean"), "ok")})
		return
	}
	if c.state != state {
		native(c.w, object{"error": object{"code": -32602, "message": "requestState is not what this API has given: call the tool again without it"}})
		return
	}
	c.done("state-ok")
}

func askThree(c *call) {
	name, greeting, folders := c.responses["user_name"], c.responses["greeting"], c.responses["client_roots"]
	if name.form("name") == "" || greeting.message() == "" || folders.Roots == nil {
		c.ask("three asked", object{
			"user_name":    elicitation("What is your name?", one("name", "string"), "name"),
			"greeting":     sampling("Generate a greeting", 50),
			"client_roots": roots(),
		})
		return
	}
	c.done("%s: %s (%d roots)", name.form("name"), greeting.message(), len(folders.Roots))
}

// askTwice keeps the first answer in the state.
func askTwice(c *call) {
	name, color := c.responses["step1"].form("name"), c.responses["step2"].form("color")
	switch {
	case color != "" && c.state != "":
		c.done("%s likes %s.", c.state, color)
	case name != "":
		c.ask(name, object{"step2": elicitation("Step 2: What is your favorite color?", one("color", "string"), "color")})
	default:
		c.ask("no answer yet", object{"step1": elicitation("Step 1: What is your name?", one("name", "string"), "name")})
	}
}

func askWhatIsPossible(c *call) {
	requests := object{}
	if c.able("sampling") {
		requests["greeting"] = sampling("Generate a greeting", 50)
	}
	if c.able("elicitation") {
		requests["user_name"] = elicitation("What is your name?", one("name", "string"), "name")
	}
	if len(requests) == 0 || len(c.responses) > 0 {
		c.done("%d answers", len(c.responses))
		return
	}
	c.ask("", requests)
}

func makePrompt(c *call) {
	context := c.responses["user_context"].form("context")
	if context == "" {
		c.ask("", object{"user_context": elicitation("What context should the prompt use?", one("context", "string"), "context")})
		return
	}
	native(c.w, object{
		"description": "A prompt with a context that the user has given.",
		"messages":    []object{{"role": "user", "content": text("Use this context: " + context)}},
	})
}
