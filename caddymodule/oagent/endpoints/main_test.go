package endpoints_test

import (
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule/auth"
	_ "github.com/fairwayhq/fairway/caddymodule/chat"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }
