package celenv

import (
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// bounded replaces those functions of the extensions whose work or result can grow with the
// product of their arguments. CEL checks its cost limit only after a call, which is too late if
// a client chooses the arguments.
func bounded() cel.EnvOption {
	text, whole := cel.StringType, cel.IntType
	items := cel.ListType(cel.TypeParamType("T"))
	return cel.Lib(functions{
		cel.Function("replace",
			cel.MemberOverload("string_replace_string_string", []*cel.Type{text, text, text}, text, cel.FunctionBinding(replace)),
			cel.MemberOverload("string_replace_string_string_int", []*cel.Type{text, text, text, whole}, text, cel.FunctionBinding(replace))),
		cel.Function("join",
			cel.MemberOverload("list_join", []*cel.Type{cel.ListType(text)}, text, cel.UnaryBinding(func(list ref.Val) ref.Val { return join(list, types.String("")) })),
			cel.MemberOverload("list_join_string", []*cel.Type{cel.ListType(text), text}, text, cel.BinaryBinding(join))),
		cel.Function("indexOf",
			cel.MemberOverload("string_index_of_string", []*cel.Type{text, text}, whole, cel.FunctionBinding(indexOf)),
			cel.MemberOverload("string_index_of_string_int", []*cel.Type{text, text, whole}, whole, cel.FunctionBinding(indexOf))),
		cel.Function("lastIndexOf",
			cel.MemberOverload("string_last_index_of_string", []*cel.Type{text, text}, whole, cel.FunctionBinding(lastIndexOf)),
			cel.MemberOverload("string_last_index_of_string_int", []*cel.Type{text, text, whole}, whole, cel.FunctionBinding(lastIndexOf))),
		cel.Function("distinct",
			cel.MemberOverload("list_distinct", []*cel.Type{items}, items, cel.UnaryBinding(distinct))),
	})
}

// functions is a cel.Library.
type functions []cel.EnvOption

// CompileOptions implements cel.Library.
func (f functions) CompileOptions() []cel.EnvOption { return f }

// ProgramOptions implements cel.Library.
func (functions) ProgramOptions() []cel.ProgramOption { return nil }

// replace implements text.replace(old, new[, limit]).
func replace(arguments ...ref.Val) ref.Val {
	text, old, replacement := string(arguments[0].(types.String)), string(arguments[1].(types.String)), string(arguments[2].(types.String))
	limit := len(text) + 1
	if len(arguments) == 4 {
		if given := arguments[3].(types.Int); given >= 0 && given < types.Int(limit) {
			limit = int(given)
		}
	}
	times := min(strings.Count(text, old), limit)
	if len(text)+times*max(len(replacement)-len(old), 0) > maxText {
		return types.WrapErr(ErrTextTooLong)
	}
	return types.String(strings.Replace(text, old, replacement, limit))
}

// join implements list.join([separator]).
func join(list, separator ref.Val) ref.Val {
	between := string(separator.(types.String))
	var joined strings.Builder
	first := true
	for iterator := list.(traits.Lister).Iterator(); iterator.HasNext() == types.True; {
		item := iterator.Next()
		text, ok := item.(types.String)
		if !ok {
			return types.MaybeNoSuchOverloadErr(item)
		}
		if !first {
			joined.WriteString(between)
		}
		first = false
		if joined.Len()+len(between)+len(text) > maxText {
			return types.WrapErr(ErrTextTooLong)
		}
		joined.WriteString(string(text))
	}
	return types.String(joined.String())
}

// indexOf implements text.indexOf(part[, from]). Positions are counted in characters.
func indexOf(arguments ...ref.Val) ref.Val {
	text, part := string(arguments[0].(types.String)), string(arguments[1].(types.String))
	skipped := 0
	if len(arguments) == 3 {
		var ok bool
		if skipped, ok = byteOffset(text, arguments[2].(types.Int)); !ok {
			return types.WrapErr(errOffset)
		}
	}
	at := strings.Index(text[skipped:], part)
	if at < 0 {
		return types.IntNegOne
	}
	return types.Int(utf8.RuneCountInString(text[:skipped+at]))
}

// lastIndexOf implements text.lastIndexOf(part[, from]). The part begins at from or before it.
func lastIndexOf(arguments ...ref.Val) ref.Val {
	text, part := string(arguments[0].(types.String)), string(arguments[1].(types.String))
	end := len(text)
	if len(arguments) == 3 {
		from, ok := byteOffset(text, arguments[2].(types.Int))
		if !ok {
			return types.WrapErr(errOffset)
		}
		end = min(from+len(part), end)
	}
	at := strings.LastIndex(text[:end], part)
	if at < 0 {
		return types.IntNegOne
	}
	return types.Int(utf8.RuneCountInString(text[:at]))
}

// byteOffset returns the byte offset of the character at that index.
func byteOffset(text string, index types.Int) (int, bool) {
	count := types.Int(0)
	for at := range text {
		if count == index {
			return at, true
		}
		count++
	}
	return len(text), index == count
}

// distinct implements list.distinct().
func distinct(list ref.Val) ref.Val {
	var kept []ref.Val
	for iterator := list.(traits.Lister).Iterator(); iterator.HasNext() == types.True; {
		item, known := iterator.Next(), false
		for _, k := range kept {
			if known = k.Equal(item) == types.True; known {
				break
			}
		}
		if known {
			continue
		}
		if len(kept) == maxDistinct {
			return types.WrapErr(ErrListTooLong)
		}
		kept = append(kept, item)
	}
	return types.NewRefValList(Adapter{}, kept)
}
