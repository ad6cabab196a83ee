package access

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// server is the API server of this package's tests, nil without a release.
var server *apitest.API

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // only libraries use this logger, and their messages do not matter
	os.Exit(apitest.MainWith(m, &server, apitest.Setup{Arguments: func(folder string) ([]string, error) {
		return apitest.AsRendered(folder, "../../render/kubeadm/testdata/init-two-dual.yaml")
	}}))
}
