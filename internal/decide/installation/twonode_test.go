package installation_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/installation"
)

func TestTwoControlPlanesAreInstalledWhenEitherMayBeLost(t *testing.T) {
	progressing := func(is bool, message string) handover.Condition {
		return handover.Condition{Type: handover.SetupProgressing, Status: is, Message: message}
	}
	degraded := func(is bool, message string) handover.Condition {
		return handover.Condition{Type: handover.SetupDegraded, Status: is, Message: message}
	}
	available := handover.Condition{Type: handover.SetupAvailable, Status: true}
	for _, c := range []struct {
		name       string
		conditions []handover.Condition
		want       installation.TwoNode
	}{
		{"the operator does not run yet", nil, installation.TwoNode{Doing: "the operator has not started yet"}},
		{
			"a step runs",
			[]handover.Condition{progressing(true, "step 3 of 6"), degraded(false, "")},
			installation.TwoNode{Doing: "step 3 of 6"},
		},
		{
			"a step fails",
			[]handover.Condition{progressing(true, "step 2 of 6"), degraded(true, "fencing on cp-2 failed: Login failed\n")},
			installation.TwoNode{Doing: "step 2 of 6", Failing: "fencing on cp-2 failed: Login failed"},
		},
		{
			"etcd is handed over and the last step is not done",
			[]handover.Condition{progressing(true, "step 6 of 6"), degraded(false, ""), available},
			installation.TwoNode{Doing: "step 6 of 6"},
		},
		{
			"all is done",
			[]handover.Condition{progressing(false, "all steps are done"), degraded(false, ""), available},
			installation.TwoNode{Done: true, Doing: "all steps are done"},
		},
		{
			"nothing is outstanding and nothing was done",
			[]handover.Condition{progressing(false, "x"), degraded(false, "")},
			installation.TwoNode{Doing: "x"},
		},
	} {
		if diff := cmp.Diff(c.want, installation.OfTwoNode(c.conditions)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
