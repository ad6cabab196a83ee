package standing

import (
	"time"

	"github.com/holdfast/holdfast/internal/decide/finding"
)

// OwnOperator is what Kubernetes says of holdfast-operator. Whatever else is known of its work is
// what it wrote last.
type OwnOperator struct {
	// Off is true if its Deployment wants no pod.
	Off bool
	// Available is true if its pod runs and is ready.
	Available bool
	// Since is when that changed last, zero if nobody says.
	Since time.Time
}

// silent is the time after which an operator that is not available becomes a finding. It is longer than
// a pod takes to be made anew.
const silent = 3 * time.Minute

// ofOwnOperator finds that the operator does not run. Without its Deployment it is among the missing objects.
func (d describer) ofOwnOperator() []finding.Finding {
	o := d.OwnOperator
	if !o.Known || o.Value.Available || !o.Value.Off && d.age(o.Value.Since) < silent {
		return nil
	}
	f := finding.Finding{
		ID: OperatorSilent, Severity: finding.Warning, Problem: "holdfast-operator does not run" + d.long(o.Value.Since),
		Meaning: "The cluster serves, but ClusterOperators, pools and nodes say what it wrote last. No host is drained, configured or upgraded, and routers do not follow what people write.",
		// the label and the namespace are those of render/operator
		Commands: finding.Anywhere("kubectl -n openshift-etcd get pods -l app.kubernetes.io/name=holdfast-operator -o wide"),
	}
	if o.Value.Off {
		f.Variant, f.Problem = "off", "holdfast-operator does not run: its Deployment wants no pod"
		f.Commands = finding.Anywhere("kubectl -n openshift-etcd scale deployment holdfast-operator --replicas=1")
	}
	return []finding.Finding{f}
}
