package app_test

import (
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule/app/stores/redis"
	_ "github.com/fairwayhq/fairway/caddymodule/auth"
	_ "github.com/fairwayhq/fairway/caddymodule/commands"
	_ "github.com/fairwayhq/fairway/caddymodule/mcp"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	_ "github.com/fairwayhq/fairway/caddymodule/ocp"
	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }
