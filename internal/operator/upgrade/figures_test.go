package upgrade

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
)

// TestOnlyAPIsThatAReleaseRemovesAreRead from the figures of an API server.
func TestOnlyAPIsThatAReleaseRemovesAreRead(t *testing.T) {
	got, err := deprecated(strings.NewReader(`# HELP apiserver_requested_deprecated_apis x
apiserver_requested_deprecated_apis{group="flowcontrol.apiserver.k8s.io",removed_release="1.37",resource="flowschemas",subresource="status",version="v1beta3"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="podsecuritypolicies",subresource="",version="v1beta1"} 0
apiserver_request_total{code="200"} 7
`))
	want := []gate.Use{{API: "flowschemas/status.v1beta3.flowcontrol.apiserver.k8s.io", Removed: gate.Version{Major: 1, Minor: 37}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestUsesAreRememberedSinceTheLastUpgrade: a restarted API server takes nothing away, and
// another release begins anew.
func TestUsesAreRememberedSinceTheLastUpgrade(t *testing.T) {
	use := gate.Use{API: "a", Removed: gate.Version{Major: 1, Minor: 37}}
	m := memory{}.learn("r1", noon, map[string][]gate.Use{"cp-1": {use}})
	m = m.learn("r1", noon.Add(time.Hour), map[string][]gate.Use{"cp-1": nil, "cp-2": {use}})
	if len(m.Uses) != 1 || m.observed(noon.Add(3*time.Hour), []string{"cp-1", "cp-2"}) != 2*time.Hour || m.observed(noon.Add(3*time.Hour), []string{"cp-1", "cp-3"}) != 0 {
		t.Errorf("%+v", m)
	}
	if m = m.learn("r2", noon.Add(2*time.Hour), map[string][]gate.Use{"cp-1": nil}); len(m.Uses) != 0 || len(m.Since) != 1 {
		t.Errorf("%+v", m)
	}
}
