package testkit

import _ "embed"

// OpenAPI documents of tests.
var (
	// Shop has two operations, getOrder and a slow one.
	//go:embed documents/shop.json
	Shop string

	// Trains has operations with parameters in each location and with a body.
	//go:embed documents/trains.yaml
	Trains string

	// Extended uses the OCP extensions of a document.
	//go:embed documents/extended.yaml
	Extended string

	// SharedPaths has operations that share method and path in each way that documents do.
	//go:embed documents/shared_paths.yaml
	SharedPaths string

	// Filled has arguments with one allowed value, which the gateway fills.
	//go:embed documents/filled.yaml
	Filled string

	// Readable has operations whose requests can be read back: with parameters of all types and
	// styles, and bodies of several media types.
	//go:embed documents/readable.yaml
	Readable string
)
