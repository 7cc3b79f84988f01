package ocp

import "github.com/fairwayhq/fairway/ocp/schema"

// SchemaMode selects where a tool's input schema contains the schemas that the document
// shares between operations.
type SchemaMode string

// The modes. An empty SchemaMode means SchemasAuto.
const (
	SchemasAuto   = SchemaMode(schema.Auto)   // small ones in place, others in $defs; or like another mode, if that is shorter
	SchemasInline = SchemaMode(schema.Inline) // in place, as long as the schema stays within a size limit
	SchemasDefs   = SchemaMode(schema.Defs)   // all in $defs
)

// ParseSchemaMode returns the mode with this name. "" means SchemasAuto.
func ParseSchemaMode(name string) (SchemaMode, error) {
	mode, err := schema.ParseMode(name)
	return SchemaMode(mode), err
}
