package request_test

import (
	"testing"

	"github.com/fairwayhq/fairway/tools/request"
)

func BenchmarkAppendObject(b *testing.B) {
	deep := map[string]request.Field{"owner": {HasStyle: true, Style: request.DeepObject, Explode: true}, "name": {}, "tags": {}}
	list := members(b, `{"name":"a b","tags":["x","y"],"owner":{"id":1,"name":"c"}}`)
	for _, mediaType := range []string{"application/json", urlencoded, "multipart/form-data"} {
		b.Run(mediaType, func(b *testing.B) {
			e := mustEncoder(b, mediaType, deep)
			dst := make([]byte, 0, 2048)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := e.AppendObject(dst, list); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
