package access

import (
	"os"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// server is the API server of this package's tests, nil without a release.
var server *apitest.API

func TestMain(m *testing.M) {
	os.Exit(apitest.MainWith(m, &server, apitest.Setup{Arguments: func(folder string) ([]string, error) {
		return apitest.AsRendered(folder, "../../render/kubeadm/testdata/init-two-dual.yaml")
	}}))
}
