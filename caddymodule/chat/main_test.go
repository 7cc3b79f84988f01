package chat_test

import (
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule/chat"
	_ "github.com/fairwayhq/fairway/caddymodule/mcp"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	_ "github.com/fairwayhq/fairway/caddymodule/otc"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }
