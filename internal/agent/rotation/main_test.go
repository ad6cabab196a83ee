package rotation

import (
	"os"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// real is an API server with etcd, or nil if there is none.
var real *apitest.API

func TestMain(m *testing.M) { os.Exit(apitest.Main(m, &real)) }
