// Program zitadel is an OpenID provider for tests: that of github.com/zitadel/oidc, with its example
// storage. It has one client and the user "test-user@localhost" with the password "verysecure".
//
//	go -C testdata/zitadel run . PORT CLIENT_ID CLIENT_SECRET REDIRECT_URI
//
// It prints "ready" when it listens on 127.0.0.1:PORT. It is a module of its own, so that Fairway does
// not depend on it.
package main

import (
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: zitadel PORT CLIENT_ID CLIENT_SECRET REDIRECT_URI")
	}
	port, id, secret, redirect := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	issuer := "http://localhost:" + port + "/"
	storage.RegisterClients(storage.WebClient(id, secret, redirect))
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	handler := exampleop.SetupServer(issuer, storage.NewStorage(storage.NewUserStore(issuer)), logger, false)
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready")
	log.Fatal(http.Serve(listener, handler))
}
