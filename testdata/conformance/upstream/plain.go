package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"log"
	"net/http"
)

// handlePlain serves what is answered as it is, each by its media type.
func handlePlain(mux *http.ServeMux) {
	picture, sound := redPixel(), tone()

	mux.HandleFunc("GET /text", answer("text/plain", []byte("This is a simple text response for testing.")))
	mux.HandleFunc("GET /image", answer("image/png", picture))
	mux.HandleFunc("GET /audio", answer("audio/wav", sound))
	mux.HandleFunc("GET /resources/text", answer("text/plain", []byte("This is the content of the static text resource.")))
	mux.HandleFunc("GET /resources/binary", answer("image/png", picture))
	mux.HandleFunc("GET /resources/watched", answer("text/plain", []byte("This resource may be watched.")))

	mux.HandleFunc("GET /failing", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"title":"Internal Server Error","status":500,"detail":"This tool intentionally returns an error for testing"}`)
	})
	mux.HandleFunc("GET /resources/items/{id}", func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		encode(w, "application/json", object{"id": id, "templateTest": true, "data": "Data for ID: " + id})
	})
	mux.HandleFunc("GET /regions", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "The region is %s.", r.URL.Query().Get("region"))
	})
	mux.HandleFunc("POST /schema", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if _, err := io.Copy(w, r.Body); err != nil {
			log.Print(err)
		}
	})
	mux.HandleFunc("GET /embedded", func(w http.ResponseWriter, _ *http.Request) {
		content(w, resource("test://embedded-resource", "text/plain", "This is an embedded resource content."))
	})
	mux.HandleFunc("GET /mixed", func(w http.ResponseWriter, _ *http.Request) {
		content(w,
			text("Multiple content types test:"),
			object{"type": "image", "data": base64.StdEncoding.EncodeToString(picture), "mimeType": "image/png"},
			resource("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`))
	})
}

// answer serves the same body to everyone.
func answer(mediaType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		if _, err := w.Write(body); err != nil {
			log.Print(err)
		}
	}
}

// resource is a content block with an embedded resource.
func resource(uri, mediaType, body string) object {
	return object{"type": "resource", "resource": object{"uri": uri, "mimeType": mediaType, "text": body}}
}

// redPixel is a PNG of one red pixel.
func redPixel() []byte {
	picture := image.NewRGBA(image.Rect(0, 0, 1, 1))
	picture.Set(0, 0, color.RGBA{R: 0xff, A: 0xff})
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		log.Fatal(err)
	}
	return b.Bytes()
}

// tone is a WAV file: 10 ms of a square wave, mono, 8 bits, 8 kHz.
func tone() []byte {
	const rate, samples = 8000, 80
	little := binary.LittleEndian
	b := little.AppendUint32([]byte("RIFF"), 36+samples)
	b = little.AppendUint32(append(b, "WAVEfmt "...), 16)
	b = little.AppendUint16(b, 1)    // PCM
	b = little.AppendUint16(b, 1)    // channels
	b = little.AppendUint32(b, rate) // samples a second
	b = little.AppendUint32(b, rate) // bytes a second
	b = little.AppendUint16(b, 1)    // bytes of a sample
	b = little.AppendUint16(b, 8)    // bits of a sample
	b = little.AppendUint32(append(b, "data"...), samples)
	for i := range samples {
		b = append(b, byte(64+i/10%2*128))
	}
	return b
}
