package controlplane

import (
	"log/slog"
	"os"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// server is the API server of this package's tests, or nil if there is none.
var server *apitest.API

var quietLog = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	os.Exit(apitest.Main(m, &server,
		"certificatesigningrequest-approving-controller", "certificatesigningrequest-signing-controller", "token-cleaner-controller"))
}
