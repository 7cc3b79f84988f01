package celenv

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fairwayhq/fairway/internal/strictjson"
)

// maxValueDepth limits the nesting of a value that is converted to JSON.
const maxValueDepth = 32

// Kinds of errors of AppendJSON, in addition to errors that the value itself represents.
var (
	ErrSize   = errors.New("the value is too large")
	ErrNoJSON = errors.New("the value cannot be written as JSON")
)

// AppendJSON appends a CEL value as JSON. Values that came from JSON are copied unchanged. The
// error wraps ErrSize if dst would have more than limit bytes. It wraps ErrNoJSON if JSON
// cannot represent the value or it nests too deeply.
func AppendJSON(dst []byte, value ref.Val, limit int) ([]byte, error) {
	w := writer{dst: dst, limit: limit}
	w.write(value, 0)
	return w.dst, w.err
}

// writer converts one value to JSON.
type writer struct {
	dst   []byte
	limit int // bytes of dst
	err   error
}

// A valueError is an error of a kind with a specific message.
type valueError struct {
	kind error
	text string
}

func (m *valueError) Error() string { return m.text }
func (m *valueError) Unwrap() error { return m.kind }

// fail records the first error.
func (w *writer) fail(kind error, format string, arguments ...any) {
	if w.err == nil {
		w.err = &valueError{kind, fmt.Sprintf(format, arguments...)}
	}
}

// failSize records that the value is too large.
func (w *writer) failSize() {
	w.fail(ErrSize, "the value has more than %d bytes", w.limit)
}

// failDepth records that the value nests too deeply.
func (w *writer) failDepth() {
	w.fail(ErrNoJSON, "the value nests deeper than %d levels", maxValueDepth)
}

// write writes any value.
func (w *writer) write(value ref.Val, depth int) {
	if depth > maxValueDepth {
		w.failDepth()
		return
	}
	switch v := value.(type) {
	case types.Null:
		w.dst = append(w.dst, "null"...)
	case types.Bool:
		w.dst = strconv.AppendBool(w.dst, bool(v))
	case types.Int:
		w.dst = strconv.AppendInt(w.dst, int64(v), 10)
	case types.Uint:
		w.dst = strconv.AppendUint(w.dst, uint64(v), 10)
	case types.Double:
		w.double(float64(v))
	case types.String:
		w.text(string(v))
	case types.Bytes:
		w.dst = append(w.dst, '"')
		w.dst = base64.StdEncoding.AppendEncode(w.dst, v)
		w.dst = append(w.dst, '"')
	case types.Timestamp:
		w.dst = append(w.dst, '"')
		w.dst = v.UTC().AppendFormat(w.dst, time.RFC3339Nano)
		w.dst = append(w.dst, '"')
	case types.Duration:
		w.text(strconv.FormatFloat(v.Seconds(), 'f', -1, 64) + "s")
	case *Object:
		w.json(v.raw, depth)
	case list:
		w.json(v.raw, depth)
	case traits.Mapper:
		w.mapping(v, depth)
	case traits.Lister:
		w.list(v, depth)
	default:
		if err, ok := value.(*types.Err); ok {
			if w.err == nil {
				w.err = err
			}
			return
		}
		w.fail(ErrNoJSON, "a value of type %s cannot be written as JSON", value.Type().TypeName())
	}
	if len(w.dst) > w.limit {
		w.failSize()
	}
}

// text writes a string.
func (w *writer) text(s string) {
	if len(w.dst)+len(s) > w.limit {
		w.failSize()
		return
	}
	w.dst = strictjson.AppendString(w.dst, s)
}

// double writes a number, which must be finite.
func (w *writer) double(number float64) {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		w.fail(ErrNoJSON, "the number is not finite, which JSON does not support")
		return
	}
	format := byte('f')
	if size := math.Abs(number); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	w.dst = strconv.AppendFloat(w.dst, number, format, -1, 64)
}

// json writes a value that came from JSON.
func (w *writer) json(raw jsontext.Value, depth int) {
	switch {
	case len(w.dst)+len(raw) > w.limit:
		w.failSize()
	case strictjson.CheckDepth(raw, maxValueDepth-depth) != nil:
		w.failDepth()
	default:
		w.dst = append(w.dst, raw...)
	}
}

// mapping writes a map in the order of its keys, which must be strings.
func (w *writer) mapping(m traits.Mapper, depth int) {
	var names []string
	for iterator := m.Iterator(); iterator.HasNext() == types.True; {
		name, ok := iterator.Next().(types.String)
		if !ok {
			w.fail(ErrNoJSON, "a key of a map is not a string, as JSON requires")
			return
		}
		names = append(names, string(name))
	}
	slices.Sort(names)
	w.dst = append(w.dst, '{')
	for _, name := range names {
		w.dst = strictjson.Comma(w.dst)
		w.text(name)
		w.dst = append(w.dst, ':')
		if w.write(m.Get(types.String(name)), depth+1); w.err != nil {
			return
		}
	}
	w.dst = append(w.dst, '}')
}

// list writes a list.
func (w *writer) list(l traits.Lister, depth int) {
	w.dst = append(w.dst, '[')
	for iterator := l.Iterator(); iterator.HasNext() == types.True; {
		w.dst = strictjson.Comma(w.dst)
		if w.write(iterator.Next(), depth+1); w.err != nil {
			return
		}
	}
	w.dst = append(w.dst, ']')
}

// Unwrap returns the value in an optional, or nil if the optional is empty. It returns any
// other value unchanged.
func Unwrap(value ref.Val) ref.Val {
	optional, ok := value.(*types.Optional)
	switch {
	case !ok:
		return value
	case !optional.HasValue():
		return nil
	}
	return optional.GetValue()
}
