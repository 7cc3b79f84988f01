package match

import (
	"strconv"
	"strings"

	"github.com/fairwayhq/fairway/internal/text"
	"github.com/fairwayhq/fairway/tools"
	"github.com/fairwayhq/fairway/tools/request"
	"github.com/fairwayhq/fairway/tools/schema"
)

// PathValues appends the values of the tool's path parameters, still encoded, in the order
// of the template. The error is a *RequestError.
func PathValues(t *tools.Tool, dst []string, path string) ([]string, error) {
	rest, parts := path, t.Plan.Parts
	for i, part := range parts {
		if part.Literal != "" {
			if !hasPrefixEscaped(rest, part.Literal) {
				return nil, wrongPath(t, path)
			}
			rest = rest[len(part.Literal):]
			continue
		}
		next := ""
		if i+1 < len(parts) {
			if next = parts[i+1].Literal; next == "" {
				return nil, &RequestError{
					Kind: request.Ambiguous, In: tools.InPath, Name: t.Plan.Arguments[part.Argument].WireName,
					Message: "the path parameters of " + t.Operation() + " are adjacent and cannot be distinguished: call it as a tool",
				}
			}
		}
		length, err := valueLen(t, rest[:spanLen(t, rest, i)], next, i+2 >= len(parts), part.Argument)
		if err != nil {
			return nil, err
		}
		if length <= 0 {
			return nil, wrongPath(t, path)
		}
		if !t.Plan.Encodings[part.Argument].Param.HasSegments(rest[:length]) {
			return nil, wrongPath(t, path)
		}
		dst = append(dst, rest[:length])
		rest = rest[length:]
	}
	if rest != "" {
		return nil, wrongPath(t, path)
	}
	return dst, nil
}

// spanLen returns the length of the segments at the beginning of rest that have the value of the parameter at position i of the parts.
func spanLen(t *tools.Tool, rest string, i int) int {
	segments := t.Plan.Encodings[t.Plan.Parts[i].Argument].Param.Segments()
	slashes := strings.Count(segments, "/")
	if strings.Contains(segments, request.AnySegments) {
		slashes = strings.Count(rest, "/")
		for _, part := range t.Plan.Parts[i+1:] {
			if slashes -= strings.Count(part.Literal, "/"); part.Literal == "" {
				slashes -= strings.Count(t.Plan.Encodings[part.Argument].Param.Segments(), "/")
			}
		}
	}
	for at := range len(rest) {
		if rest[at] == '/' {
			if slashes--; slashes < 0 {
				return at
			}
		}
	}
	return len(rest)
}

// valueLen returns the length of a path parameter's value in its segments, up to the literal next, or 0 if
// there is no value.
func valueLen(t *tools.Tool, segment, next string, last bool, argument int) (int, error) {
	next, _, ends := strings.Cut(next, "/")
	if ends || last {
		if len(segment) < len(next) || !hasPrefixEscaped(segment[len(segment)-len(next):], next) {
			return 0, nil
		}
		return len(segment) - len(next), nil
	}
	if segment == "" {
		return 0, nil
	}
	at := strings.Index(segment[1:], next)
	if at >= 0 && strings.Count(request.DecodeTriples(segment[1:]), request.DecodeTriples(next)) > 1 {
		return 0, &RequestError{
			Kind: request.Ambiguous, In: tools.InPath, Name: t.Plan.Arguments[argument].WireName,
			Message: "the path parameters of " + t.Operation() + " cannot be distinguished: " + strconv.Quote(next) + " is between them and in one of them",
		}
	}
	return at + 1, nil
}

func wrongPath(t *tools.Tool, path string) error {
	return &RequestError{
		Kind: WrongPath, In: tools.InPath,
		Message: "the path " + strconv.Quote(text.Cut(path, schema.MaxProblem)) + " is not one of " + t.Operation(),
	}
}

// hasPrefixEscaped reports whether the escaped path begins with the literal. The case of
// the digits in %XX is ignored.
func hasPrefixEscaped(path, literal string) bool {
	if len(path) < len(literal) {
		return false
	}
	if path[:len(literal)] == literal {
		return true
	}
	for i := 0; i < len(literal); i++ {
		if path[i] != literal[i] {
			return false
		}
		if literal[i] == '%' && i+2 < len(literal) {
			if !strings.EqualFold(path[i+1:i+3], literal[i+1:i+3]) {
				return false
			}
			i += len("XX")
		}
	}
	return true
}
