package console

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/fairwayhq/fairway/caddymodule/internal/calllog"
)

// Limits of an export.
const (
	maxExported = 10_000
	exportTime  = 30 * time.Second
)

// exportFormat is a file format of an export.
type exportFormat struct {
	mediaType string
	writer    func(io.Writer) func(*calllog.Call) error // writes calls one by one
}

var exportFormats = map[string]exportFormat{
	"csv":   {"text/csv; charset=utf-8; header=present", csvWriter},
	"jsonl": {"application/jsonl", jsonWriter},
}

// exportCalls serves the newest calls that a query selects as a file. If the store fails in the middle, or the time is over, the response is
// aborted, so that a part is not taken for the whole.
func (c *Handler) exportCalls(q *request, query calllog.Query, format string) (*page, error) {
	f, known := exportFormats[format]
	if !known {
		return nil, &failure{http.StatusBadRequest, "Invalid parameter", "export must be csv or jsonl."}
	}
	ctx, cancel := context.WithTimeout(q.Context(), exportTime)
	query.Limit = calllog.MaxFound
	found, err := c.site.calls.Find(ctx, query)
	if err != nil {
		cancel()
		return nil, err
	}
	return &page{file: func(w http.ResponseWriter) {
		defer cancel()
		w.Header().Set("Content-Type", f.mediaType)
		w.Header().Set("Content-Disposition", `attachment; filename="calls.`+format+`"`)
		write := f.writer(w)
		for exported := 0; ; {
			for i := range found.Calls[:min(len(found.Calls), maxExported-exported)] {
				if err = write(&found.Calls[i]); err != nil {
					return // the client has disconnected
				}
				exported++
			}
			if query.Cursor = found.Next; query.Cursor == "" || exported == maxExported {
				return
			}
			if found, err = c.site.calls.Find(ctx, query); err == nil {
				err = ctx.Err()
			}
			if err != nil {
				c.site.logger.Warn("reading the kept calls failed", zap.Error(err))
				panic(http.ErrAbortHandler)
			}
		}
	}}, nil
}

func jsonWriter(w io.Writer) func(*calllog.Call) error {
	return func(call *calllog.Call) error {
		line, err := json.Marshal(call, jsontext.AllowInvalidUTF8(true))
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		return err
	}
}

// csvWriter writes the columns that the JSON of a call has, first a line with their names.
func csvWriter(w io.Writer) func(*calllog.Call) error {
	lines := csv.NewWriter(w)
	var names []string
	var columns []int
	for f := range reflect.TypeFor[calllog.Call]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			names, columns = append(names, name), append(columns, f.Index[0])
		}
	}
	_ = lines.Write(names) // Error has the error
	cells := make([]string, len(columns))
	return func(call *calllog.Call) error {
		of := reflect.ValueOf(call).Elem()
		for i, column := range columns {
			cells[i] = cell(of.Field(column).Interface())
		}
		_ = lines.Write(cells)
		lines.Flush()
		return lines.Error()
	}
}

// cell returns a value for a spreadsheet. A text of a client that a spreadsheet would run as a formula gets an apostrophe before it.
func cell(value any) (text string) {
	switch v := value.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case []string:
		text = strings.Join(v, ",")
	case jsontext.Value:
		text = string(v)
	default:
		text = fmt.Sprint(v)
	}
	if text != "" && strings.ContainsRune("=+-@\t\r\n", rune(text[0])) {
		return "'" + text
	}
	return text
}
