package tool

import "github.com/fairwayhq/fairway/ocp/internal/schema"

// SchemaMode selects where a tool's input schema contains the schemas that the document
// shares between operations.
type SchemaMode string

// The modes. An empty SchemaMode means SchemasAuto.
const (
	SchemasAuto   SchemaMode = "auto"   // small ones in place, others in $defs; or like another mode, if that is shorter
	SchemasInline SchemaMode = "inline" // in place, as long as the schema stays within a size limit
	SchemasDefs   SchemaMode = "defs"   // all in $defs
)

// ParseSchemaMode returns the mode with this name. "" means SchemasAuto.
func ParseSchemaMode(name string) (SchemaMode, error) {
	mode, err := schema.ParseMode(name)
	return SchemaMode(mode), err
}
