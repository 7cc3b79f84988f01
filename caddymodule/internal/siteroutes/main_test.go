package siteroutes_test

import (
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule/auth"
	_ "github.com/fairwayhq/fairway/caddymodule/console"
	_ "github.com/fairwayhq/fairway/caddymodule/hosted"
	_ "github.com/fairwayhq/fairway/caddymodule/hosted/models"
	_ "github.com/fairwayhq/fairway/caddymodule/mcp"
	_ "github.com/fairwayhq/fairway/caddymodule/mcpservers"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	_ "github.com/fairwayhq/fairway/caddymodule/ocp"
	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }
