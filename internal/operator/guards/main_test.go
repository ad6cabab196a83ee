package guards

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// Others' kinds are written by hand and accept anything, except for this one.
//go:generate sh -c "install -m 644 $(go list -m -f {{.Dir}} github.com/openshift/api)/payload-manifests/crds/0000_80_machine-config_01_machineconfigpools-SelfManagedHA.crd.yaml testdata/crds/machineconfigpools.yaml"

// server is the API server of this package's tests, or nil if there is none.
var server *apitest.API

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // what has no logger of its own is only small talk of libraries
	os.Exit(apitest.Main(m, &server))
}
