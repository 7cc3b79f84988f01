package notify_test

import (
	"testing"

	_ "github.com/fairwayhq/fairway/caddymodule/hosted"
	_ "github.com/fairwayhq/fairway/caddymodule/hosted/models"
	_ "github.com/fairwayhq/fairway/caddymodule/oagent"
	"github.com/fairwayhq/fairway/internal/testkit/sitetest"
)

func TestMain(m *testing.M) { sitetest.Main(m) }
