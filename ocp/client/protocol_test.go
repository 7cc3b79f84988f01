package client

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/fairwayhq/fairway/internal/testkit"
)

// TestOCP has one test for each MUST of OCP 1.0 about calls, under the section that
// has it.
func TestOCP(t *testing.T) {
	t.Run("Schema_Discovery/Specification_Validation", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		if _, err := new(Discovery).Tools(context.Background(), "x", server.URL); err == nil || !testkit.ContainsAll(err.Error(), "404") {
			t.Errorf("a missing document: %v", err)
		}
	})
	t.Run("Client_Libraries/2_Schema_Discovery", TestDiscovery)
	t.Run("Client_Libraries/3_Tool_Execution", TestClient_Call)
	t.Run("Client_Libraries/3_Tool_Execution/context_updated", TestClient_merges)
	t.Run("Client_Libraries/4_Error_Handling/degraded_mode", TestClient_degraded)
}
