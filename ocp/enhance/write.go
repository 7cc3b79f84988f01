package enhance

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

	"github.com/fairwayhq/fairway/internal/wire"
)

// maxValueDepth is how deeply the value of a property may nest.
const maxValueDepth = 32

// A valueWriter appends CEL values as JSON. What was JSON in the answer or the
// context is written as it stood there.
type valueWriter struct {
	dst    []byte
	limit  int // bytes of dst
	reason Reason
	err    error
}

func (w *valueWriter) fail(reason Reason, err error) {
	if w.err == nil {
		w.reason, w.err = reason, err
	}
}

func (w *valueWriter) write(value ref.Val, depth int) {
	if depth > maxValueDepth {
		w.fail(Value, fmt.Errorf("the value nests deeper than %d levels", maxValueDepth))
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
	case *object:
		w.json(v.raw, depth)
	case list:
		w.json(v.raw, depth)
	case traits.Mapper:
		w.mapping(v, depth)
	case traits.Lister:
		w.list(v, depth)
	default:
		if types.IsError(value) {
			w.fail(reasonOf(value.(*types.Err)), value.(*types.Err))
			return
		}
		w.fail(Value, fmt.Errorf("a value of type %s has no JSON", value.Type().TypeName()))
	}
	w.checkSize()
}

func (w *valueWriter) checkSize() {
	if len(w.dst) > w.limit {
		w.fail(AddedSize, fmt.Errorf("the value has more than %d bytes", w.limit))
	}
}

func (w *valueWriter) text(s string) {
	if len(w.dst)+len(s) > w.limit {
		w.fail(AddedSize, fmt.Errorf("the value has more than %d bytes", w.limit))
		return
	}
	w.dst = wire.AppendString(w.dst, s)
}

func (w *valueWriter) double(number float64) {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		w.fail(Value, errors.New("the number is not finite, which JSON cannot say"))
		return
	}
	format := byte('f')
	if size := math.Abs(number); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	w.dst = strconv.AppendFloat(w.dst, number, format, -1, 64)
}

func (w *valueWriter) json(raw jsontext.Value, depth int) {
	if len(w.dst)+len(raw) > w.limit {
		w.fail(AddedSize, fmt.Errorf("the value has more than %d bytes", w.limit))
		return
	}
	if wire.CheckDepth(raw, maxValueDepth-depth) != nil {
		w.fail(Value, fmt.Errorf("the value nests deeper than %d levels", maxValueDepth))
		return
	}
	w.dst = append(w.dst, raw...)
}

// mapping writes a map in the order of its keys, which must be texts.
func (w *valueWriter) mapping(m traits.Mapper, depth int) {
	var names []string
	for iterator := m.Iterator(); iterator.HasNext() == types.True; {
		name, ok := iterator.Next().(types.String)
		if !ok {
			w.fail(Value, errors.New("a key of a map is no text, as JSON wants it"))
			return
		}
		names = append(names, string(name))
	}
	slices.Sort(names)
	w.dst = append(w.dst, '{')
	for i, name := range names {
		if i > 0 {
			w.dst = append(w.dst, ',')
		}
		w.text(name)
		w.dst = append(w.dst, ':')
		if w.write(m.Get(types.String(name)), depth+1); w.err != nil {
			return
		}
	}
	w.dst = append(w.dst, '}')
}

func (w *valueWriter) list(l traits.Lister, depth int) {
	w.dst = append(w.dst, '[')
	first := true
	for iterator := l.Iterator(); iterator.HasNext() == types.True; first = false {
		if !first {
			w.dst = append(w.dst, ',')
		}
		if w.write(iterator.Next(), depth+1); w.err != nil {
			return
		}
	}
	w.dst = append(w.dst, ']')
}

// unwrap returns what an optional holds, nil if that is nothing, and any other
// value itself.
func unwrap(value ref.Val) ref.Val {
	optional, ok := value.(*types.Optional)
	switch {
	case !ok:
		return value
	case !optional.HasValue():
		return nil
	}
	return optional.GetValue()
}
