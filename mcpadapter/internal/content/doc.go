// Package content writes what a tool returns to an MCP client.
//
//   - Content blocks (blocks.go, response.go): it decides by media type which kind of block represents a
//     response of the API, and converts blocks that an API returns to the revision of the client.
//   - The outputSchema of tools (outputschema.go), and results that conform to it (output.go): the schema of
//     the API's document, reduced to what clients' validators agree on.
package content
