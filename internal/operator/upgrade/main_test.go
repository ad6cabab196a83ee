package upgrade

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// server is the API server of this package's tests, or nil if there is none.
var server *apitest.API

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what has no logger of its own is only small talk of libraries
	os.Exit(apitest.Main(m, &server))
}
