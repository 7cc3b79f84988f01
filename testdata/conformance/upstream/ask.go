package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// A call is one round of a request that may need more from the client: what the
// gateway says of the client in headers of its own.
type call struct {
	w            http.ResponseWriter
	body         object                     // the arguments
	capabilities map[string]json.RawMessage // of the client
	responses    map[string]reply           // to what the last round asked
	state        string                     // that the last round gave
}

// A reply is what came back for one ask. Of the kinds of ask each fills its own
// fields.
type reply struct {
	Action  string          `json:"action"`  // elicitation: accept, decline or cancel
	Content json.RawMessage `json:"content"` // elicitation: the form; sampling: the message
	Roots   []struct {
		URI string `json:"uri"`
	} `json:"roots"`
}

// form returns a field of the form if the user has filled it in, "" otherwise.
func (a reply) form(field string) string {
	var values object
	if a.Action != "accept" || json.Unmarshal(a.Content, &values) != nil || values[field] == nil {
		return ""
	}
	return fmt.Sprint(values[field])
}

// message returns the text that the client's model has answered.
func (a reply) message() string {
	var message struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(a.Content, &message) != nil {
		return ""
	}
	return message.Text
}

// rounds serves calls.
func rounds(serve func(c *call)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, state: r.Header.Get("Mcp-Request-State")}
		if err := c.read(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		serve(c)
	}
}

func (c *call) read(r *http.Request) error {
	if err := json.NewDecoder(r.Body).Decode(&c.body); err != nil && err != io.EOF {
		return fmt.Errorf("body: %w", err)
	}
	if header := r.Header.Get("Mcp-Client-Capabilities"); header != "" {
		if err := json.Unmarshal([]byte(header), &c.capabilities); err != nil {
			return fmt.Errorf("Mcp-Client-Capabilities: %w", err)
		}
	}
	header := r.Header.Get("Mcp-Input-Responses")
	if header == "" {
		return nil
	}
	var all map[string]json.RawMessage
	decoded, err := base64.RawURLEncoding.DecodeString(header)
	if err == nil {
		err = json.Unmarshal(decoded, &all)
	}
	if err != nil {
		return fmt.Errorf("Mcp-Input-Responses: %w", err)
	}
	c.responses = make(map[string]reply)
	for key, value := range all {
		var a reply
		if json.Unmarshal(value, &a) == nil { // what is no reply is asked for again
			c.responses[key] = a
		}
	}
	return nil
}

// ask ends a round: the requests go to the client, and the answers come with the
// next one. The state comes back with them, "" for none.
func (c *call) ask(state string, requests object) {
	result := object{"resultType": "input_required", "inputRequests": requests}
	if state != "" {
		result["requestState"] = state
	}
	native(c.w, result)
}

// done ends the last round.
func (c *call) done(format string, arguments ...any) {
	content(c.w, text(fmt.Sprintf(format, arguments...)))
}

// able reports whether the client has declared the capability.
func (c *call) able(capability string) bool {
	_, ok := c.capabilities[capability]
	return ok
}

// elicitation asks the user to fill in a form.
func elicitation(message string, properties object, required ...string) object {
	schema := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return object{"method": "elicitation/create", "params": object{"message": message, "requestedSchema": schema}}
}

// sampling asks the client's model.
func sampling(prompt any, maxTokens int) object {
	return object{"method": "sampling/createMessage", "params": object{
		"messages":  []object{{"role": "user", "content": object{"type": "text", "text": prompt}}},
		"maxTokens": maxTokens,
	}}
}

// roots asks which folders the client works in.
func roots() object {
	return object{"method": "roots/list", "params": object{}}
}

// one is the only field of a form.
func one(name, kind string) object {
	return object{name: object{"type": kind}}
}
