package dualstack

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
)

func TestAPlanAndItsNodesAreKeptUntilTheyAreDropped(t *testing.T) {
	s := Store{Root: t.TempDir()}
	if p, _, err := s.Load(); p != nil || err != nil {
		t.Fatal(p, err)
	}
	must(t, s.Put(secondV6, decide.Journal{Stage: decide.Written, Begun: true, Changed: "b1"}))
	must(t, s.PutNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1", UID: "u1"}}))
	p, j, err := s.Load()
	must(t, err)
	if p.ID != "p" || p.Hosts["cp-1"] != secondV6.Hosts["cp-1"] || j.Stage != decide.Written || !j.Begun || j.Changed != "b1" {
		t.Errorf("%+v %+v", p, j)
	}
	if n, err := s.Node("w-1"); err != nil || n.UID != "u1" {
		t.Errorf("%+v %v", n, err)
	}
	must(t, s.Drop())
	p, _, err = s.Load()
	n, err2 := s.Node("w-1")
	if p != nil || n != nil || err != nil || err2 != nil {
		t.Errorf("%+v %+v %v %v", p, n, err, err2)
	}
	must(t, os.WriteFile(s.path(planPath), []byte("{"), 0o600))
	if _, _, err := s.Load(); err == nil || !strings.Contains(err.Error(), planPath) {
		t.Errorf("half a file is no plan: %v", err)
	}
}

func TestAProcessIsKnownByItsServiceNetworks(t *testing.T) {
	for text, want := range map[string]bool{
		"kube-apiserver\x00--service-cluster-ip-range=172.30.0.0/16,fd96::/112\x00":    true,
		"kube-apiserver\x00--service-cluster-ip-range=172.30.0.0/16\x00--x=fd96::/112": false, "": false,
	} {
		if got := ranges([]byte(text), "fd96::/112"); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
