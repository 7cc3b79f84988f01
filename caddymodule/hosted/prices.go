package hosted

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/directive"
	"github.com/fairwayhq/fairway/oagent/hosted/model"
)

// Price is the price of the tokens of a model, each for a million, in any currency.
type Price struct {
	// The name of the model, as in the configuration of the model. Required.
	Model string `json:"model,omitempty"`

	// The price of the tokens of requests. Default: 0.
	Input float64 `json:"input,omitempty"`

	// The price of the tokens of responses. Default: 0.
	Output float64 `json:"output,omitempty"`

	// The price of those tokens of requests that the API read from its cache. Default: that of input.
	Cached *float64 `json:"cached,omitempty"`
}

// priceTable returns the prices by model.
func priceTable(all []Price) (map[string]model.Price, error) {
	table := make(map[string]model.Price, len(all))
	for _, p := range all {
		if p.Cached == nil {
			p.Cached = &p.Input
		}
		if _, twice := table[p.Model]; twice || p.Model == "" {
			return nil, fmt.Errorf("prices: the model %q is missing a name, or is given twice", p.Model)
		}
		for _, amount := range []float64{p.Input, p.Output, *p.Cached} {
			if !(amount >= 0 && amount <= model.MaxPrice) {
				return nil, fmt.Errorf("prices: the price %v of the model %s is not between 0 and %v", amount, p.Model, model.MaxPrice)
			}
		}
		table[p.Model] = model.Price{Input: p.Input, Output: p.Output, Cached: *p.Cached}
	}
	return table, nil
}

// pricedModel is a model whose responses have a cost.
type pricedModel struct {
	model.Model
	prices map[string]model.Price
	warned *sync.Map // models without a price
	logger *zap.Logger
}

// Generate implements model.Model.
func (m *pricedModel) Generate(ctx context.Context, request *model.Request, onText func(string)) (*model.Response, error) {
	response, err := m.Model.Generate(ctx, request, onText)
	if err != nil {
		return nil, err
	}
	price, known := m.prices[response.Model]
	if _, warned := m.warned.LoadOrStore(response.Model, true); !known && !warned {
		m.logger.Warn("a model has no price, so its tokens cost nothing: add it to prices", zap.String("model", response.Model))
	}
	response.Usage.Cost = price.Of(response.Usage)
	return response, nil
}

// unmarshalPrices parses the option prices at the current token of b. Syntax:
//
//	prices {
//		<model> <input> <output> [<cached>]
//	}
func (c *Config) unmarshalPrices(outer *directive.Block) (err error) {
	if outer.NextArg() {
		return outer.ArgErr()
	}
	for nesting := outer.Nesting(); outer.NextBlock(nesting); {
		p := Price{Model: outer.Val()}
		args := outer.RemainingArgs()
		if len(args) != 2 && len(args) != 3 {
			return outer.Errf("prices: the model %s needs the prices of input and output, and perhaps of cached input", p.Model)
		}
		amounts := make([]float64, len(args))
		for i, arg := range args {
			if amounts[i], err = strconv.ParseFloat(arg, 64); err != nil {
				return outer.Errf("prices: %q is not an amount of money", arg)
			}
		}
		p.Input, p.Output = amounts[0], amounts[1]
		if len(amounts) == 3 {
			p.Cached = &amounts[2]
		}
		c.Prices = append(c.Prices, p)
	}
	return nil
}
