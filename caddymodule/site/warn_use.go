package site

import (
	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/internal/share"
)

// WarnUse logs that more than 80 % of a limit with shares are in use. It is for share.Options.Warn.
func WarnUse(u share.Usage) {
	caddy.Log().Named("agents").Warn("more than 80 % of a limit are in use; above 75 % each user and network has a share of the rest",
		zap.String("resource", u.Name), zap.Int64("used", u.Used), zap.Int64("limit", u.Limit),
		zap.String("largest_owner", string(u.Largest)), zap.Int64("largest_used", u.LargestUsed))
}
