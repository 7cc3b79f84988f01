package schema

// What the tests look into.
const (
	WorkPerByte = workPerByte
	RefKey      = refKey
	DefsPrefix  = definitionPrefix
)

var FlatLevels = flatLevels

// Work returns how many bytes are read for all depths of a schema.
func Work(schema []byte, room int) (total int) {
	f := newFlattener(schema)
	for _, f.outline = range []bool{false, true} {
		for _, f.levels = range flatLevels {
			f.bound(room, len(schema))
			f.flatten()
			total += f.work
		}
	}
	return total
}
