// Package testdocs has what the tests of ocp share: small OpenAPI documents, and requests as
// text.
package testdocs

// Shop has two operations, getOrder and a slow one.
const Shop = `{"openapi":"3.0.3","info":{"title":"Shop","version":"1"},"servers":[{"url":"/v1"}],"paths":{
	"/orders/{id}":{"get":{"operationId":"getOrder","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}},
		{"name":"key","in":"query","schema":{"type":"string"}}],
		"responses":{"200":{"description":"OK","content":{"application/json":{"schema":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}}}}}},
	"/slow":{"get":{"responses":{"200":{"description":"OK"}}}}}}`

// trains is the beginning of Trains and Readable.
const trains = `
openapi: 3.1.0
info: {title: Trains, version: "1.2"}
servers: [{url: https://api.example.com/v1/}]
paths:
  /trips/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string}}
    get:
      operationId: getTrip
      parameters:
`

// Trains has operations with parameters in each location and with a body.
const Trains = trains + `        - {name: fields, in: query, explode: false, schema: {type: array, items: {type: string}}}
        - {name: "filter[class]", in: query, schema: {type: string, enum: [first, second]}}
        - {name: page, in: query, schema: {type: integer, default: 1}}
        - {name: X-Trace-Id, in: header, schema: {type: string}}
        - {name: theme, in: cookie, schema: {type: string}}
        - {name: Authorization, in: header, schema: {type: string}}
      responses: {"200": {description: A trip, content: {application/json: {schema: {type: object}}}}}
    patch:
      operationId: changeTrip
      requestBody:
        required: true
        content:
          application/merge-patch+json:
            schema:
              type: object
              required: [note]
              properties:
                id: {type: string, description: The new id}
                note: {type: string, default: none}
                seats: {type: integer, default: 1}
                private: {type: boolean, default: false}
                created: {type: string, readOnly: true}
                window: {type: [boolean, "null"]}
      responses: {"204": {description: Changed}}
  /labels:
    post:
      operationId: addLabel
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [name]
              properties: {name: {type: string}, colour: {type: string}}
              additionalProperties: {type: integer}
      responses: {"201": {description: Added}}
  /search:
    post:
      operationId: search
      requestBody:
        required: true
        content:
          application/json:
            schema: {oneOf: [{type: string}, {type: array, items: {type: string}}]}
      responses: {"200": {description: Found, content: {application/json: {}}}}
  /a{x}{y}/b:
    get:
      operationId: joined
      parameters:
        - {name: x, in: path, required: true, schema: {type: string}}
        - {name: y, in: path, required: true, schema: {type: string}}
      responses: {"200": {description: OK}}
`

// Extended uses the OCP extensions of a document.
const Extended = `openapi: 3.1.0
info:
  title: Shop
  version: "1"
  x-ocp-enabled: true
  x-ocp-context-aware: true
  x-ocp-agent-types: [ide_assistant, cli_tool]
  x-ocp-version: 1.0
servers:
  - url: https://{region}.shop.example/v1
    variables: {region: {default: eu}}
paths:
  /orders:
    get:
      operationId: listOrders
      x-ocp-context:
        enhances_with: [agent_goal, workspace_context, conversation_history, current_file, agent_goal]
        updates_context: [current_goal, history, user]
        requires_context: true
      x-ocp-enhanced-response:
        next_actions: {type: array, items: {$ref: '#/components/schemas/Action'}}
        1st: {type: string}
        plain: text
      responses:
        '200':
          description: OK
          x-ocp-context-updated: true
    post:
      operationId: addOrder
      responses:
        '201':
          description: Created
          x-ocp-enhanced-response:
            type: object
            properties:
              relevance: {type: number, minimum: 0, maximum: 1}
        '400':
          description: Bad
          x-ocp-enhanced-response: {hints: {type: string}}
  /by-ref:
    get:
      operationId: byRef
      x-ocp-enhanced-response: {$ref: '#/components/x-enhanced'}
      responses: {'200': {description: OK}}
  /wrapped:
    get:
      operationId: wrapped
      x-ocp-enhanced-response: {properties: {a: {type: string}}}
      responses: {'200': {description: OK}}
  /named-properties:
    get:
      operationId: namedProperties
      x-ocp-enhanced-response: {properties: {type: object}}
      responses: {'200': {description: OK}}
  /none:
    get:
      operationId: none
      responses: {'200': {description: OK}}
  /broken:
    get:
      operationId: broken
      x-ocp-context: [yes]
      x-ocp-enhanced-response: {$ref: '#/nowhere'}
      responses: {'200': {description: OK}}
components:
  x-enhanced: {hint: {type: string}}
  schemas:
    Action: {type: object, properties: {name: {type: string}}, required: [name]}
`

// SharedPaths has operations that share method and path in each way that documents do.
const SharedPaths = `openapi: 3.0.3
info: {title: T, version: "1"}
servers: [{url: https://api.example.com/v1}]
paths:
  /#X-Amz-Target=Store.GetItem:
    post:
      operationId: GetItem
      parameters: [{name: X-Amz-Target, in: header, required: true, schema: {type: string, enum: [Store.GetItem]}}]
      requestBody: {content: {application/json: {schema: {type: object, properties: {Key: {type: string}}}}}}
      responses: {}
  /#X-Amz-Target=Store.DeleteItem:
    post:
      operationId: DeleteItem
      parameters: [{name: X-Amz-Target, in: header, required: true, schema: {type: string, enum: [Store.DeleteItem]}}]
      requestBody: {content: {application/json: {schema: {type: object, properties: {Key: {type: string}}}}}}
      responses: {}
  /files/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    put:
      operationId: update_file
      parameters: [{name: fields, in: query, schema: {type: string}}]
      requestBody: {content: {application/json: {schema: {type: object, properties: {name: {type: string}}}}}}
      responses: {}
  /files/{id}#add_shared_link:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    put:
      parameters: [{name: fields, in: query, required: true, schema: {type: string}}]
      requestBody: {content: {application/json: {schema: {type: object, properties: {shared_link: {type: string}}}}}}
      responses: {}
  /services/rest/?method=photos.get:
    get: {parameters: [{name: photo, in: query, schema: {type: string}}], responses: {}}
  /services/rest/?method=photos.delete:
    get: {parameters: [{name: photo, in: query, schema: {type: string}}], responses: {}}
  /search?mode=fast:
    get: {operationId: fast, responses: {}}
  /search:
    get: {operationId: search, parameters: [{name: mode, in: query, schema: {type: string}}], responses: {}}
  /{bucket}/objects/{key}:
    parameters: [{name: bucket, in: path, required: true, schema: {type: string}}, {name: key, in: path, required: true, schema: {type: string}}]
    put: {operationId: PutObject, responses: {}}
  /{bucket}/objects/{key}?acl:
    parameters: [{name: bucket, in: path, required: true, schema: {type: string}}, {name: key, in: path, required: true, schema: {type: string}}]
    put: {operationId: PutAcl, responses: {}}
  /{bucket}/objects/{key}#uploadId:
    parameters: [{name: bucket, in: path, required: true, schema: {type: string}}, {name: key, in: path, required: true, schema: {type: string}}]
    put:
      operationId: UploadPart
      parameters: [{name: uploadId, in: query, required: true, schema: {type: string}}]
      responses: {}
  /{bucket}/objects/{key}#copy:
    parameters: [{name: bucket, in: path, required: true, schema: {type: string}}, {name: key, in: path, required: true, schema: {type: string}}]
    put:
      operationId: CopyObject
      parameters: [{name: x-copy-source, in: header, required: true, schema: {type: string}}]
      responses: {}
  /{version}/status:
    parameters: [{name: version, in: path, required: true, schema: {type: string, enum: [v2]}}]
    get: {operationId: status, responses: {}}
`

// Filled has arguments with one allowed value, which the gateway fills.
const Filled = `openapi: 3.1.0
info: {title: T, version: "1"}
components:
  schemas:
    Kind: {type: string, enum: [order]}
    Both: {type: string, enum: [a, b]}
paths:
  /orders:
    post:
      operationId: create
      parameters:
        - {name: Action, in: query, required: true, schema: {const: CreateOrder}}
        - {name: version, in: query, required: true, schema: {type: integer, enum: [2]}}
        - {name: dryRun, in: query, schema: {type: boolean, enum: [true]}}
        - {name: sort, in: query, required: true, schema: {$ref: "#/components/schemas/Both"}}
        - {name: X-API-Version, in: header, required: true, schema: {allOf: [{$ref: "#/components/schemas/Kind"}]}}
        - {name: x-note, in: header, schema: {type: string}}
        - {name: tenant, in: cookie, required: true, schema: {type: string, enum: [acme]}}
        - {name: Transfer-Encoding, in: header, required: true, schema: {type: string}}
        - {name: Content-Length, in: header, required: true, schema: {type: integer}}
        - {name: host, in: header, required: true, schema: {type: string}}
        - {name: Connection, in: header, required: true, schema: {type: string}}
        - {name: none, in: query, required: true, schema: {enum: [null]}}
        - {name: list, in: query, required: true, schema: {type: array, items: {type: string, enum: [x]}}}
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [kind, item]
              properties:
                kind: {$ref: "#/components/schemas/Kind"}
                item: {type: string}
                flag: {type: string, enum: [only]}
      responses: {}
  /form:
    post:
      operationId: form
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              required: [grant_type, code]
              properties: {grant_type: {type: string, enum: [code]}, code: {type: string}}
      responses: {}
`

// Readable has operations whose requests can be read back: with parameters of all types and
// styles, and bodies of several media types.
const Readable = trains + `        - {name: page, in: query, schema: {type: integer}}
        - {name: price, in: query, schema: {type: number}}
        - {name: direct, in: query, schema: {type: boolean}}
        - {name: code, in: query, schema: {type: [integer, string]}}
        - {name: any, in: query, schema: {}}
        - {name: fields, in: query, explode: false, schema: {type: array, items: {type: string}}}
        - {name: class, in: query, schema: {type: array, items: {type: string}}}
        - {name: "expand[]", in: query, schema: {type: array, items: {type: string}}}
        - {name: seats, in: query, style: pipeDelimited, explode: false, schema: {type: array, items: {type: integer}}}
        - {name: filter, in: query, style: deepObject, schema: {type: object, properties: {from: {type: string}, stops: {type: array, items: {type: integer}}}}}
        - {name: where, in: query, schema: {type: object, properties: {lat: {type: number}, lon: {type: number}}}}
        - {name: query, in: query, content: {application/json: {schema: {type: object}}}}
        - {name: trip_id, in: query, schema: {type: string}}
        - {name: X-Trace-Id, in: header, schema: {type: string}}
        - {name: X-Tags, in: header, schema: {type: array, items: {type: string}}}
        - {name: theme, in: cookie, schema: {type: string}}
        - {name: ids, in: cookie, explode: false, schema: {type: array, items: {type: integer}}}
      responses: {"200": {description: A trip}}
    patch:
      operationId: changeTrip
      requestBody:
        required: true
        content:
          application/json:
            schema:
              type: object
              required: [note]
              properties:
                id: {type: string}
                note: {type: string}
                seats: {type: integer, default: 1}
                window: {type: [boolean, "null"]}
                created: {type: string, readOnly: true}
      responses: {"204": {description: Changed}}
  /labels:
    post:
      operationId: addLabel
      parameters: [{name: tag, in: query, schema: {type: string}}]
      requestBody:
        content:
          application/json:
            schema: {type: object, properties: {name: {type: string}}, additionalProperties: {type: integer}}
      responses: {"201": {description: Added}}
  /search:
    post:
      operationId: search
      requestBody: {content: {application/vnd.trains+json: {schema: {oneOf: [{type: string}, {type: array, items: {type: string}}]}}}}
      responses: {"200": {description: Found}}
  /forms:
    post:
      operationId: form
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: {type: object, properties: {name: {type: string}, seats: {type: integer}, tags: {type: array, items: {type: string}}, meta: {type: object}}}
            encoding: {meta: {style: deepObject, explode: true}}
      responses: {"200": {description: OK}}
  /uploads:
    post:
      operationId: upload
      requestBody:
        content:
          multipart/form-data:
            schema: {type: object, properties: {name: {type: string}, seats: {type: integer}, file: {type: string, format: binary}, meta: {type: object}}}
      responses: {"200": {description: OK}}
  /notes:
    post:
      operationId: note
      requestBody: {content: {text/plain: {schema: {type: string}}}}
      responses: {"200": {description: OK}}
  /images:
    post:
      operationId: image
      requestBody: {content: {image/*: {}}}
      responses: {"200": {description: OK}}
  /whole/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    put:
      operationId: whole
      requestBody: {content: {application/json: {schema: {type: object, properties: {note: {type: string}, price: {type: object, properties: {amount: {type: number}, Unit: {type: string}, unit: {type: string}}}, legs: {type: array, items: {type: object, properties: {to: {type: string}}}}}}}}}
      responses: {"200": {description: OK}}
  /free:
    post:
      operationId: free
      requestBody: {content: {application/x-www-form-urlencoded: {}}}
      responses: {"200": {description: OK}}
  /range/{from}-{to}:
    parameters: [{name: from, in: path, required: true, schema: {type: integer}}, {name: to, in: path, required: true, schema: {type: integer}}]
    get: {operationId: range, responses: {"200": {description: OK}}}
`
