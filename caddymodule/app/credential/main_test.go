package credential_test

import (
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule/auth"
	_ "github.com/fairwayhq/fairway/caddymodule/console"
	_ "github.com/fairwayhq/fairway/caddymodule/login"
	_ "github.com/fairwayhq/fairway/caddymodule/mcp"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }
