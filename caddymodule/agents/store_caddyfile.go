package agents

import (
	"strings"

	"github.com/fairwayhq/fairway/caddymodule/directive"
)

// unmarshalStore reads the subdirective store of the global option agents. Syntax:
//
//	store bolt [<file>] {
//		max_records <number>
//		max_size    <size>
//	}
//	store redis <url> {
//		prefix <text>
//	}
func (a *App) unmarshalStore(outer *directive.Block) error {
	if err := outer.Once(); err != nil {
		return err
	}
	a.Store = new(StoreConfig)
	arguments := outer.RemainingArgs()
	switch {
	case len(arguments) > 0 && len(arguments) <= 2 && arguments[0] == "bolt":
		return a.Store.unmarshalBolt(outer, arguments[1:])
	case len(arguments) == 2 && arguments[0] == "redis":
		return a.Store.unmarshalRedis(outer, arguments[1])
	}
	return outer.Err("store is one of: store bolt [<file>], store redis <url>")
}

// unmarshalBolt reads the arguments and the block of `store bolt`.
func (c *StoreConfig) unmarshalBolt(outer *directive.Block, file []string) error {
	c.Bolt = new(BoltConfig)
	if len(file) > 0 {
		if c.Bolt.File = file[0]; c.Bolt.File == "" || strings.Contains(c.Bolt.File, "://") {
			return outer.Errf("store bolt %q is not a file name", c.Bolt.File)
		}
	}
	b := directive.NewBlock(outer.Dispenser)
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		var err error
		switch b.Val() {
		case "max_records":
			if err = b.Count(&c.Bolt.MaxRecords); err == nil && c.Bolt.MaxRecords == 0 {
				err = b.Err("max_records must be at least 1")
			}
		case "max_size":
			err = b.Size(&c.Bolt.MaxSize)
		default:
			err = b.Unrecognized("store bolt")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unmarshalRedis reads the URL and the block of `store redis`.
func (c *StoreConfig) unmarshalRedis(outer *directive.Block, url string) error {
	c.Redis = &RedisConfig{URL: url}
	if url == "" {
		return outer.Err("the url of store redis is empty")
	}
	b := directive.NewBlock(outer.Dispenser)
	for nesting := b.Nesting(); b.NextBlock(nesting); {
		var err error
		switch b.Val() {
		case "prefix":
			err = b.Text(&c.Redis.Prefix)
		default:
			err = b.Unrecognized("store redis")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
