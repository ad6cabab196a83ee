package health

import (
	"os"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// server is the API server of this package's tests, or nil if there is none.
var server *apitest.API

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, &server)) }
