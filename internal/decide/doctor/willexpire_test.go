package doctor

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/finding"
	"github.com/holdfast/holdfast/internal/model/state"
)

func TestWhatWillExpireIsToldWithWhoRenewsIt(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	certificate := func(path string, days int) Certificate {
		return Certificate{Path: path, Ends: at.Add(time.Duration(days) * day)}
	}
	f := Facts{At: at, Topology: Topology{ControlPlanes: 2}, Hosts: []Host{
		{Name: "cp-1", Certificates: state.Known([]Certificate{
			certificate("/etc/kubernetes/pki/apiserver.crt", 365), certificate("/etc/kubernetes/pki/ca.crt", 3650),
			certificate("/etc/kubernetes/pki/holdfast-agent.pem", 100), certificate("/etc/kubernetes/pki/holdfast/operator.pem", 100),
			certificate("/var/lib/kubelet/pki/kubelet-client-current.pem", 300), certificate("/etc/kubernetes/pki/etcd/peer.crt", 200),
			certificate("/var/lib/kubelet/pki/kubelet.crt", -3), certificate("/var/lib/kubelet/pki/kubelet-server-current.pem", 310),
			{Path: "/etc/kubernetes/pki/front-proxy-client.crt", Ends: at.Add(150 * day), Lacks: "/etc/kubernetes/pki/front-proxy-ca.key"},
		})},
		{Name: "cp-2"},
	}}
	for _, c := range []struct {
		after time.Duration
		want  Result
	}{
		{400 * day, Result{Severity: finding.Warning, Findings: []finding.Finding{
			{Severity: finding.Warning, Problem: "/var/lib/kubelet/pki/kubelet.crt expired 3 days ago, on 2026-11-17: nothing renews it"},
			{Severity: finding.Warning, Problem: "/etc/kubernetes/pki/front-proxy-client.crt expires in 150 days, on 2027-04-19: nothing renews it here, because /etc/kubernetes/pki/front-proxy-ca.key is not on this host"},
			{Severity: finding.Note, Problem: "/etc/kubernetes/pki/apiserver.crt expires in 365 days, on 2027-11-20: holdfast-agent renews it while the host runs"},
			{Severity: finding.Note, Problem: "/etc/kubernetes/pki/holdfast-agent.pem expires in 100 days, on 2027-02-28: holdfast-agent renews it while the host runs"},
			{Severity: finding.Note, Problem: "/etc/kubernetes/pki/holdfast/operator.pem expires in 100 days, on 2027-02-28: holdfast-agent renews it while the host runs"},
			{Severity: finding.Note, Problem: "/var/lib/kubelet/pki/kubelet-client-current.pem expires in 300 days, on 2027-09-16: kubelet renews it while the host runs"},
			{Severity: finding.Note, Problem: "/etc/kubernetes/pki/etcd/peer.crt expires in 200 days, on 2027-06-08: holdfast-agent renews it while the host runs"},
			{Severity: finding.Note, Problem: "/var/lib/kubelet/pki/kubelet-server-current.pem expires in 310 days, on 2027-09-26: kubelet renews it while the host runs"},
			{Severity: finding.OK, Problem: "no other certificate expires until 2027-12-25"},
		}}},
		{0, Result{Severity: finding.Warning, Findings: []finding.Finding{
			{Severity: finding.Warning, Problem: "/var/lib/kubelet/pki/kubelet.crt expired 3 days ago, on 2026-11-17: nothing renews it"},
			{Severity: finding.OK, Problem: "no other certificate expires until 2026-11-20"},
		}}},
	} {
		for i := range c.want.Findings {
			c.want.Findings[i].ID, c.want.Findings[i].Subject = "certificates", "cp-1"
		}
		got := WillExpire(f, c.after)
		if diff := cmp.Diff(c.want.Findings, got.Findings); diff != "" || got.Severity != c.want.Severity || got.ID != "certificates" {
			t.Errorf("%s: %s %s\n%s", c.after, got.ID, got.Severity, diff)
		}
		if diff := cmp.Diff([]string{"certificates of cp-2", "certificates in the API"}, got.Unseen); diff != "" {
			t.Errorf("%s: %s", c.after, diff)
		}
	}
	f.Hosts, f.Cluster.Ends = f.Hosts[:1], state.Known([]Ending{})
	f.Hosts[0].Certificates = state.Known([]Certificate{certificate("/etc/kubernetes/pki/ca.crt", 3650)})
	if got := WillExpire(f, 400*day); got.Severity != finding.OK || got.Findings[0].Problem != "no certificate expires until 2027-12-25" {
		t.Errorf("%+v", got)
	}
}

func TestWhatEndsInTheAPIIsToldToo(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	f := Facts{At: at, Topology: Topology{ControlPlanes: 1}, Hosts: []Host{{Name: "cp-1", Certificates: state.Known([]Certificate{})}}}
	f.Cluster.Ends = state.Known([]Ending{
		{What: "the certificate in Secret openshift-ingress/shop", Ends: at.Add(80 * day)},
		{What: "the certificate in Secret openshift-ingress/router-certs-default", Ends: at.Add(300 * day), Renewer: "holdfast-operator"},
		{What: "the kubeconfig of administrator alice", Ends: at.Add(-day), Personal: true},
		{What: "the certificate in Secret openshift-ingress-operator/router-ca", Ends: at.Add(500 * day), Renewer: "holdfast-operator"},
	})
	got := WillExpire(f, 400*day)
	want := []finding.Finding{
		{Severity: finding.Warning, Problem: "the certificate in Secret openshift-ingress/shop expires in 80 days, on 2027-02-08: nothing renews it"},
		{Severity: finding.Note, Problem: "the certificate in Secret openshift-ingress/router-certs-default expires in 300 days, on 2027-09-16: holdfast-operator renews it"},
		{Severity: finding.Note, Problem: "the kubeconfig of administrator alice expired 1 days ago, on 2026-11-19: nothing renews it; 'holdfast kubeconfig' makes another one"},
		{Severity: finding.OK, Subject: "cp-1", Problem: "no certificate expires until 2027-12-25"},
	}
	for i := range want {
		want[i].ID = "certificates"
	}
	if diff := cmp.Diff(want, got.Findings); diff != "" || got.Severity != finding.Warning || len(got.Unseen) > 0 {
		t.Errorf("%s %v\n%s", got.Severity, got.Unseen, diff)
	}
}
