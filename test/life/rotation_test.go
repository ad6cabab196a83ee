package life_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/lab"
)

// TestAuthoritiesAreReplacedUnderLoad replaces the CAs of the front proxy and of etcd,
// without and with a power cut in each phase, and then has tokens of service accounts
// signed by a new key. The old key is dropped an hour later by 'holdfast ca rotate',
// when no pod uses a token of it any more: no test waits for that.
//
// For the front proxy nothing is restarted. For etcd's CA each etcd and each API server
// is, one host after the other, and connections that a client kept end.
func TestAuthoritiesAreReplacedUnderLoad(t *testing.T) {
	for _, a := range []rotation.Authority{rotation.FrontProxyCA, rotation.EtcdCA} {
		play(t, fmt.Sprintf("%s replaced", a), func(tr *trial) {
			since := tr.Now()
			tr.says(0, "ca", "rotate", string(a), "--yes")
			tr.Trial.Took("until it is replaced", time.Since(since))
			tr.Noticed("", since)
			if a == rotation.FrontProxyCA {
				tr.NothingFailed("replaced", since, tr.Clients()...)
			}
			tr.onlyKeptConnectionsEnd(since)
			tr.outages(since)
			tr.noWriteGapAbove(busyGap)
			tr.nobodyFenced()
		})
		for _, phase := range []rotation.Phase{rotation.Trust, rotation.Sign, rotation.Drop} {
			if t.Failed() {
				return
			}
			play(t, fmt.Sprintf("%s replaced, power cut in phase %s", a, phase), func(tr *trial) { tr.cutInPhase(a, phase) })
		}
	}
	if t.Failed() {
		return
	}
	play(t, "key of service accounts replaced", func(tr *trial) {
		since := tr.Now()
		tr.says(3, "ca", "rotate", string(rotation.ServiceAccountKey), "--yes", "--token-life", "65m")
		tr.Trial.Took("until all sign by the new key", time.Since(since))
		tr.Noticed("", since)
		tr.NothingFailed("replaced", since, application)
		tr.outages(since)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// cutInPhase cuts the power of the host that has its turn in a phase, while the
// command runs, which ends as if nothing had been.
func (tr *trial) cutInPhase(a rotation.Authority, phase rotation.Phase) {
	tr.Helper()
	since := tr.Now()
	var all sync.WaitGroup
	all.Go(func() { tr.says(0, "ca", "rotate", string(a), "--yes") })
	turn := tr.turnIn(a, phase)
	tr.Inject(lab.Fault{Host: turn, Kind: lab.FaultReset})
	tr.Logf("%s loses its power in phase %s", turn, phase)
	all.Wait()
	tr.Trial.Took("until it is replaced", time.Since(since))
	tr.Noticed("", since)
}

// turnIn waits for a phase of an authority, and returns the host that has its turn in it.
func (tr *trial) turnIn(a rotation.Authority, phase rotation.Phase) string {
	tr.Helper()
	turn := ""
	tr.Eventually(10*time.Minute, fmt.Sprintf("a host has its turn in phase %s", phase), func() error {
		var s corev1.Secret
		key := client.ObjectKey{Namespace: rotation.WishNamespace, Name: rotation.WishName}
		if err := tr.API.Get(tr.Context(), key, &s); err != nil {
			return err
		}
		w, err := rotation.ParseWish(s.Data[string(a)])
		if err != nil {
			return err
		}
		if w.Phase != phase || w.Turn == "" {
			return fmt.Errorf("the phase is %s, the turn has %q", w.Phase, w.Turn)
		}
		turn = w.Turn
		return nil
	})
	return turn
}

// TestTheKubernetesCAIsReplacedUnderLoad replaces the CA of the API with a person's
// commands alone: 'holdfast ca rotate' on a control plane, the reboots that it names, and
// the restart of flannel. Its clients get the new CA where a person gets it: before the
// new CA signs.
//
// It waits twice for 12 minutes; with four reboots it takes an hour.
func TestTheKubernetesCAIsReplacedUnderLoad(t *testing.T) {
	var bundle string
	play(t, "Kubernetes CA replaced: all trust the new one", func(tr *trial) {
		since := tr.Now()
		if out, code := tr.rotatesKubernetes(); code != 3 || !strings.Contains(out, "rollout restart daemonset") {
			tr.Fatalf("code %d, want 3 and the pod network's restart:\n%s", code, out)
		}
		tr.Trial.Took("until all trust the new one", time.Since(since))
		kubectl := "kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-flannel rollout "
		tr.On(tr.ControlPlanes()[0], kubectl+"restart daemonset kube-flannel && "+kubectl+"status --timeout=10m daemonset kube-flannel")
		tr.asAfterReboots(since)
		for _, h := range tr.Lab.Layout.Hosts {
			if bundle = tr.On(h.Name, "cat /etc/kubernetes/pki/ca.crt") + "\n"; strings.Count(bundle, "BEGIN CERTIFICATE") != 2 {
				tr.Errorf("%s trusts\n%s", h.Name, bundle)
			}
		}
	})
	if t.Failed() {
		return
	}
	s := open(t)
	if err := s.Trust(s.access, []byte(bundle)); err != nil {
		t.Fatal(err)
	}
	play(t, "Kubernetes CA replaced: all sign with the new one, and drop the old one", func(tr *trial) {
		since := tr.Now()
		if out, code := tr.rotatesKubernetes(); code != 0 {
			tr.Fatalf("code %d, want 0:\n%s", code, out)
		}
		tr.Trial.Took("until it is replaced", time.Since(since))
		tr.asAfterReboots(since)
		for _, h := range tr.Lab.Layout.Hosts {
			if left := tr.On(h.Name, "cat /etc/kubernetes/pki/ca.crt"); strings.Count(left, "BEGIN CERTIFICATE") != 1 || !strings.Contains(bundle, left) {
				tr.Errorf("%s trusts\n%s", h.Name, left)
			}
		}
		tr.tells(0, []string{string(rotation.KubernetesCA) + ": all have the same authority and no other one"}, "ca", "show")
	})
}

// rotatesKubernetes runs the command, and boots each host that it names, until it is
// complete or wants something else. It returns what the command said last.
func (tr *trial) rotatesKubernetes() (out string, code int) {
	tr.Helper()
	const reboot = "holdfast host reboot "
	for range 2*len(tr.ControlPlanes()) + 1 {
		began := time.Now()
		out = tr.On(tr.ControlPlanes()[0], "holdfast ca rotate kubernetes-ca --yes 2>&1; echo code $?")
		tr.Logf("holdfast ca rotate kubernetes-ca, %.0f s\n%s", time.Since(began).Seconds(), out)
		i := strings.LastIndex(out, "code ")
		if _, err := fmt.Sscanf(out[max(i, 0):], "code %d", &code); err != nil {
			tr.Fatalf("it has no exit code: %v", err)
		}
		words := strings.Fields(out[max(strings.LastIndex(out, reboot), 0):]) // its lines may be broken
		if code != 3 || !strings.Contains(out, reboot) || len(words) < 4 {
			return out, code
		}
		host := words[3]
		tr.says(0, "host", "reboot", host, "--reason", "it reads its authorities")
		tr.Eventually(3*time.Minute, host+" says that it has read its authorities", func() error {
			if shown := tr.On(host, "holdfast ca show 2>&1 || true"); strings.Contains(shown, reboot+host) {
				return errors.New(shown)
			}
			return nil
		})
	}
	tr.Fatalf("it names more hosts than there are:\n%s", out)
	return out, code
}

// asAfterReboots checks what clients may notice of planned reboots.
func (tr *trial) asAfterReboots(since time.Time) {
	tr.Helper()
	tr.Noticed("", since)
	if len(tr.ControlPlanes()) == 2 {
		tr.onlyKeptConnectionsEnd(since)
	}
	tr.outages(since)
	tr.noWriteGapAbove(busyGap)
	tr.nobodyFenced()
}
