package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/fairwayhq/fairway/caddymodule/app"
	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/internal/text"
)

// configuredToolset returns the options of a toolset in the configuration that --config names. --toolset
// chooses one if there are several.
func configuredToolset(flags caddycmd.Flags) (name string, config *app.ToolsetConfig, err error) {
	raw, _, _, err := caddycmd.LoadConfig(flags.String("config"), flags.String("adapter"))
	if err != nil {
		return "", nil, err
	}
	found, err := toolsetsIn(raw)
	if err != nil {
		return "", nil, err
	}
	names := slices.Sorted(maps.Keys(found))
	name = flags.String("toolset")
	switch {
	case len(names) == 0:
		return "", nil, fmt.Errorf("--config %s has no toolset: give a document instead", flags.String("config"))
	case name == "" && len(names) == 1:
		name = names[0]
	case name == "":
		return "", nil, fmt.Errorf("--config %s has several toolsets: choose one with --toolset: %s", flags.String("config"), strings.Join(names, ", "))
	}
	if config = found[name]; config == nil {
		return "", nil, fmt.Errorf("--toolset %.64q is not in the configuration%s", name, directive.DidYouMean(name, names))
	}
	return name, config, nil
}

// toolsetsIn returns the toolsets of a configuration: those of the app by name, and those of handlers by
// the address of their document.
func toolsetsIn(raw []byte) (map[string]*app.ToolsetConfig, error) {
	var config struct {
		Apps struct {
			Agents app.App         `json:"agents"`
			HTTP   json.RawMessage `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	found := make(map[string]*app.ToolsetConfig)
	maps.Copy(found, config.Apps.Agents.Toolsets)
	var http any
	if len(config.Apps.HTTP) > 0 {
		if err := json.Unmarshal(config.Apps.HTTP, &http); err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
	}
	return found, handlerToolsets(http, found)
}

// handlerToolsets adds the toolsets that handlers anywhere in the value define.
func handlerToolsets(value any, found map[string]*app.ToolsetConfig) error {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			if err := handlerToolsets(item, found); err != nil {
				return err
			}
		}
	case map[string]any:
		if value["handler"] != nil && value["document"] == nil {
			addAddresses(value, found)
		}
		if document, ok := value["document"].(map[string]any); ok && value["handler"] != nil {
			encoded, err := json.Marshal(document)
			if err != nil {
				return err
			}
			config := new(app.ToolsetConfig)
			if err := json.Unmarshal(encoded, config); err != nil {
				return fmt.Errorf("reading the toolset of handler %v: %w", value["handler"], err)
			}
			if address, ok := value["toolset"].(string); ok && config.OpenAPI == "" && found[address] == nil {
				config.OpenAPI = address // as in: mcp trips.yaml
			}
			if _, known := found[config.OpenAPI]; !known && config.OpenAPI != "" {
				found[config.OpenAPI] = config
			}
		}
		for _, member := range value {
			if err := handlerToolsets(member, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// addAddresses adds a toolset for each document that a handler names by its address alone, as in: mcp /mcp trips.yaml.
func addAddresses(handler map[string]any, found map[string]*app.ToolsetConfig) {
	names, _ := handler["toolsets"].([]any)
	for _, name := range append([]any{handler["toolset"]}, names...) {
		address, _ := name.(string)
		if app.IsAddress(address) && found[address] == nil {
			found[address] = &app.ToolsetConfig{OpenAPI: address}
		}
	}
}

// checkConfigFlags returns an error for flags that --config excludes, as the configuration says them.
func checkConfigFlags(flags caddycmd.Flags, document string) error {
	if flags.String("config") == "" {
		if flags.String("toolset") != "" || flags.String("adapter") != "" {
			return errors.New("--toolset and --adapter require --config")
		}
		return nil
	}
	if document != "" {
		return fmt.Errorf("--config and the document %s are both given; remove one (the configuration has its own documents)", text.RedactURL(document))
	}
	for _, name := range [...]string{"overlay", "include", "exclude", "readonly", "ignore-extensions", "schemas", "refs", "base-path"} {
		if flag := flags.Lookup(name); flag != nil && flag.Changed {
			return fmt.Errorf("--%s and --config are both given; remove --%s, which the configuration says", name, name)
		}
	}
	return nil
}
