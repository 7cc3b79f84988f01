package answer

import (
	"slices"
	"strconv"

	"github.com/itchyny/gojq"

	"github.com/fairwayhq/fairway/internal/wire"
)

// namesOnStack is the number of names of an object that are sorted without an allocation.
const namesOnStack = 16

// appendObject appends an object. Its members are in the order of their names.
func appendObject(dst []byte, object map[string]any, limit int) []byte {
	var few [namesOnStack]string
	names := few[:0]
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(wire.AppendString(dst, name), ':')
		if dst = appendValue(dst, object[name], limit); len(dst) > limit {
			return dst
		}
	}
	return append(dst, '}')
}

// appendScalar appends a boolean or a number. Numbers that are not common are written as jq does.
func appendScalar(dst []byte, value any) []byte {
	switch v := value.(type) {
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	}
	encoded, err := gojq.Marshal(value)
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, encoded...)
}
