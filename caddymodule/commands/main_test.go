package commands_test

import (
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule/commands"
	_ "github.com/fairwayhq/fairway/caddymodule/console"
	_ "github.com/fairwayhq/fairway/caddymodule/events"
	_ "github.com/fairwayhq/fairway/caddymodule/hosted"
	_ "github.com/fairwayhq/fairway/caddymodule/hosted/models"
	_ "github.com/fairwayhq/fairway/caddymodule/mcp"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent/command"
	_ "github.com/fairwayhq/fairway/caddymodule/ocp"
	_ "github.com/fairwayhq/fairway/caddymodule/ocp/command"
	_ "github.com/fairwayhq/fairway/caddymodule/stdio"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }
