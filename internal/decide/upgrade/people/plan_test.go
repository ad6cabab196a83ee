package people

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/noderole"
	"github.com/holdfast/holdfast/internal/decide/page"
)

// TestNoUpgradeBeginsWhileAPlanChangesTheControlPlanes: review case L86.
func TestNoUpgradeBeginsWhileAPlanChangesTheControlPlanes(t *testing.T) {
	const plan = "the plan p1 of ada brings cp-2 as the second control plane"
	s := aSite()
	s.plan = plan
	u := s.read(t)
	_, err := u.Start(Start{Image: r2})
	no, ok := errors.AsType[*Refusal](err)
	if !ok || no.Unknown || !strings.Contains(no.Why, plan) {
		t.Errorf("it begins: %v", err)
	}
	if c := u.Check(r2); c.Worst() != Waits && c.Worst() != Person || !strings.Contains(c.Text(page.Style{}), plan) {
		t.Errorf("the gates do not tell of the plan: %s", c.Text(page.Style{}))
	}
	if _, err := s.underWay(1).read(t).Rollback(); err != nil {
		t.Errorf("an upgrade that has begun cannot go back: %v", err)
	}
}

func TestTheWordOfAControlPlaneAboutAReleaseCountsBeforeThatOfAWorker(t *testing.T) {
	s := aSite()
	s.hosts[2].Facts.Name = "a-1" // it comes before cp-1
	s.hosts[2].Offered[0].Name, s.hosts[2].Release.Digest = "a lie", r3
	u := s.read(t)
	if r, told := u.Release(r2); !told || r.Name != "Holdfast 0.9.0" {
		t.Errorf("%v %+v", told, r)
	}
	if _, told := u.Release(r3); !told {
		t.Error("nobody hears a worker of which no control plane tells")
	}
	if n := HostOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{noderole.Claim: "master"}}}); n.Labelled {
		t.Error("a claim, which a kubelet may write, counts as the label")
	}
}
