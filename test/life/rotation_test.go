package life_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
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
			since, pods := tr.Now(), tr.podsOf(hello)
			tr.says(0, "ca", "rotate", string(a), "--yes", "--without-backup")
			tr.Trial.Took("until it is replaced", time.Since(since))
			tr.Noticed("", since)
			tr.nobodyEvicted(hello, pods)
			if a == rotation.FrontProxyCA {
				tr.NothingFailed("replaced", since, tr.Clients()...)
			}
			tr.onlyKeptConnectionsEnd(since)
			tr.outages(since)
			most := busyGap
			if a == rotation.EtcdCA {
				most = restartGap
			}
			tr.noWriteGapAbove(most)
			tr.nobodyFenced()
		})
		for _, phase := range []rotation.Phase{rotation.Trust, rotation.Sign, rotation.Drop} {
			if t.Failed() {
				return
			}
			play(t, fmt.Sprintf("%s replaced, power cut in phase %s", a, phase), func(tr *trial) { tr.cutInPhase(a, phase, 0) })
		}
	}
	if t.Failed() {
		return
	}
	playServiceAccountKey(t, "key of service accounts replaced", func(tr *trial) {
		since := tr.Now()
		tr.says(3, "ca", "rotate", string(rotation.ServiceAccountKey), "--yes", "--without-backup", "--token-life", oldTokens)
		tr.Trial.Took("until all sign by the new key", time.Since(since))
		tr.Noticed("", since)
		tr.NothingFailed("replaced", since, application)
		if len(tr.ControlPlanes()) > 1 {
			tr.readsGoOn(since) // each API server starts anew in its turn
		}
		tr.outages(since)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// oldTokens is for how long tokens of the old key are waited for: somewhat longer than
// the tokens of pods live.
const oldTokens = "65m"

// TestTheKeyOfServiceAccountsIsReplacedOverAPowerCut cuts the power of the host that has
// its turn to sign by the new key. The command ends as it does without a cut: all sign by
// the new key, and the old one is dropped later.
//
// It takes five minutes, and needs a lab in which no rotation of that key is under way: it
// is played alone, by SCENARIOS=KeyOfServiceAccounts.
func TestTheKeyOfServiceAccountsIsReplacedOverAPowerCut(t *testing.T) {
	playServiceAccountKey(t, "key of service accounts replaced, power cut in phase "+string(rotation.Sign), func(tr *trial) {
		tr.cutInPhase(rotation.ServiceAccountKey, rotation.Sign, 3, "--token-life", oldTokens)
		for _, h := range tr.ControlPlanes() {
			tr.Eventually(time.Minute, h+" signs by the new key", func() error { return tr.signsAnew(h, rotation.ServiceAccountKey) })
		}
	})
}

// TestTheKeyOfServiceAccountsWaitsForAHostThatIsAway plays with that key what
// TestARotationWaitsForAHostThatIsAway plays with CAs. The command ends when all sign by the
// new key.
//
// It takes ten minutes, and needs a lab in which no rotation of that key is under way: it is
// played alone, by SCENARIOS=KeyOfServiceAccountsWaits.
func TestTheKeyOfServiceAccountsWaitsForAHostThatIsAway(t *testing.T) {
	waitsForAHost(t, awayPlay{
		ca: rotation.ServiceAccountKey, ends: rotation.Sign, code: 3, more: []string{"--token-life", oldTokens}, play: playServiceAccountKey,
	})
}

// playServiceAccountKey plays a rotation of the key of service accounts, unless one is
// under way: the command would go on with that.
func playServiceAccountKey(t *testing.T, scenario string, do func(*trial)) {
	t.Helper()
	w, err := wishOf(t.Context(), open(t).API, rotation.ServiceAccountKey)
	switch {
	case err != nil:
		t.Fatal(err)
	case w.Running():
		leaveOut(t, scenario, "a rotation of it is under way since "+w.Began.Format(time.RFC3339)+", and ends an hour later: play it in a new lab")
	default:
		play(t, scenario, do)
	}
}

// signsAnew returns nil if a host says that it signs by the authority of the rotation
// that is under way.
func (tr *trial) signsAnew(host string, a rotation.Authority) error {
	n, err := tr.node(host)
	if err != nil {
		return err
	}
	said := state.ParseAnnotation[rotation.Reports](n.Annotations[state.AnnotationTrust])
	r := said.Value.Authorities[a]
	if r.New == "" || r.Signs != r.New {
		return fmt.Errorf("it signs by %s, the new one is %s", r.Signs.Short(), r.New.Short())
	}
	return nil
}

// cutInPhase cuts the power of the host that has its turn in a phase, while the
// command runs, which ends as if nothing had been.
func (tr *trial) cutInPhase(a rotation.Authority, phase rotation.Phase, code int, more ...string) {
	tr.Helper()
	tr.mayBegin("ca", "rotate", string(a)) // programs of a host start again after the power cut of the play before
	since := tr.Now()
	command := tr.starts(append([]string{"ca", "rotate", string(a), "--yes", "--without-backup"}, more...)...)
	defer func() {
		if tr.Failed() {
			tr.Logf("holdfast ca rotate %s says:\n%s", a, command.said())
		}
	}()
	turn := tr.turnIn(a, phase)
	tr.Inject(lab.Fault{Host: turn, Kind: lab.FaultReset})
	tr.Logf("%s loses its power in phase %s", turn, phase)
	// The wish is in the API, which is away for a while and then goes on: this tells, and proves nothing.
	tr.Eventually(2*time.Minute, "the API tells of the rotation", func() error {
		w, err := wishOf(tr.Context(), tr.API, a)
		if err == nil {
			tr.Logf("once the API answers, the phase is %s, the turn has %q", w.Phase, w.Turn)
		}
		return err
	})
	command.ends(code)
	tr.Trial.Took("until it is replaced", time.Since(since))
	tr.Noticed("", since)
}

// wishOf returns the wish about an authority.
func wishOf(ctx context.Context, api client.Client, a rotation.Authority) (rotation.Wish, error) {
	var s corev1.Secret
	err := api.Get(ctx, client.ObjectKey{Namespace: rotation.WishNamespace, Name: rotation.WishName}, &s)
	if client.IgnoreNotFound(err) != nil {
		return rotation.Wish{}, err
	}
	return rotation.ParseWish(s.Data[string(a)])
}

// turnIn waits for a phase of an authority, and returns the host that has its turn in it.
func (tr *trial) turnIn(a rotation.Authority, phase rotation.Phase) string {
	tr.Helper()
	turn := ""
	tr.Eventually(10*time.Minute, fmt.Sprintf("a host has its turn in phase %s", phase), func() error {
		w, err := wishOf(tr.Context(), tr.API, a)
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
// It waits twice for 12 minutes; with four reboots it takes an hour. With CUT_CA it also
// cuts the power of the last control plane when that has its turn in a phase: trust, sign
// or drop. That takes five minutes more, and what clients notice is not judged in the part
// with the cut.
func TestTheKubernetesCAIsReplacedUnderLoad(t *testing.T) {
	switch planes := open(t).ControlPlanes(); {
	case *cutCA == "":
	case !cuts([]rotation.Phase{rotation.Trust, rotation.Sign, rotation.Drop}):
		t.Fatalf("-cut-kubernetes-ca=%s: must be trust, sign or drop", *cutCA)
	case len(planes) == 1:
		t.Skip("the command runs on the only control plane, and would end with its power")
	}
	var bundle string
	trusted := false
	play(t, "Kubernetes CA replaced: all trust the new one", func(tr *trial) {
		since := tr.Now()
		if out, code := tr.rotatesKubernetes(rotation.Trust); code != 3 || !strings.Contains(out, "rollout restart daemonset") {
			tr.Fatalf("code %d, want 3 and the pod network's restart:\n%s", code, out)
		}
		tr.Trial.Took("until all trust the new one", time.Since(since))
		kubectl := "kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-flannel rollout "
		tr.On(tr.ControlPlanes()[0], kubectl+"restart daemonset kube-flannel && "+kubectl+"status --timeout=10m daemonset kube-flannel")
		tr.asAfterReboots(since, rotation.Trust)
		for _, h := range tr.Lab.Layout.Hosts {
			if bundle = tr.On(h.Name, "cat /etc/kubernetes/pki/ca.crt") + "\n"; strings.Count(bundle, "BEGIN CERTIFICATE") != 2 {
				tr.Fatalf("%s trusts\n%s", h.Name, bundle)
			}
		}
		trusted = true
	})
	if !trusted { // what clients noticed until then does not keep the rest from being played
		return
	}
	s := open(t)
	if err := s.Trust(s.access, []byte(bundle)); err != nil {
		t.Fatal(err)
	}
	play(t, "Kubernetes CA replaced: all sign with the new one, and drop the old one", func(tr *trial) {
		since := tr.Now()
		if out, code := tr.rotatesKubernetes(rotation.Sign, rotation.Drop); code != 0 {
			tr.Fatalf("code %d, want 0:\n%s", code, out)
		}
		tr.Trial.Took("until it is replaced", time.Since(since))
		tr.asAfterReboots(since, rotation.Sign, rotation.Drop)
		for _, h := range tr.Lab.Layout.Hosts {
			if left := tr.On(h.Name, "cat /etc/kubernetes/pki/ca.crt"); strings.Count(left, "BEGIN CERTIFICATE") != 1 || !strings.Contains(bundle, left) {
				tr.Errorf("%s trusts\n%s", h.Name, left)
			}
		}
		tr.tells(0, []string{string(rotation.KubernetesCA) + ": all have the same authority and no other one"}, "ca", "show")
	})
}

// cutCA is a phase of the rotation of the Kubernetes CA.
var cutCA = flag.String("cut-kubernetes-ca", "", "cut the power of a control plane in this phase of the Kubernetes CA's rotation: trust, sign or drop")

// cuts reports whether the power is cut in one of these phases.
func cuts(phases []rotation.Phase) bool {
	return slices.Contains(phases, rotation.Phase(*cutCA))
}

// cutMeanwhile does something, and cuts the power of the last control plane when that has
// its turn meanwhile in the phase that the test's flag names.
func (tr *trial) cutMeanwhile(do func()) {
	tr.Helper()
	ctx, stop := context.WithCancel(tr.Context())
	planes, phase := tr.ControlPlanes(), rotation.Phase(*cutCA)
	victim := planes[len(planes)-1]
	var err error
	var all sync.WaitGroup
	all.Go(func() {
		err = labsite.Until(ctx, time.Hour, 200*time.Millisecond, func() error {
			w, err := wishOf(ctx, tr.API, rotation.KubernetesCA)
			if err == nil && (w.Phase != phase || w.Turn != victim) {
				err = fmt.Errorf("the phase is %s, the turn has %q", w.Phase, w.Turn)
			}
			return err
		})
		if err == nil {
			err = tr.Power.Inject(ctx, lab.Fault{Host: victim, Kind: lab.FaultReset})
		}
	})
	defer func() {
		stop()
		all.Wait()
		if err != nil {
			tr.Errorf("%s did not lose its power in phase %s: %v", victim, phase, err)
		}
	}()
	do()
}

// rotatesKubernetes takes the Kubernetes CA through some phases, with a power cut if the
// test's flag names one of them.
func (tr *trial) rotatesKubernetes(phases ...rotation.Phase) (out string, code int) {
	tr.Helper()
	if !cuts(phases) {
		return tr.rotatesAndBoots()
	}
	tr.cutMeanwhile(func() { out, code = tr.rotatesAndBoots() })
	return out, code
}

// rotatesAndBoots runs the command, and boots each host that it names, until it is
// complete or wants something else. It returns what the command said last.
func (tr *trial) rotatesAndBoots() (out string, code int) {
	tr.Helper()
	const reboot = "holdfast host reboot "
	for range 2*len(tr.ControlPlanes()) + 1 {
		began := time.Now()
		out = tr.On(tr.ControlPlanes()[0], "holdfast ca rotate kubernetes-ca --yes --without-backup 2>&1; echo code $?")
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

// asAfterReboots checks what clients may notice of planned reboots, in phases in which no
// power was cut.
func (tr *trial) asAfterReboots(since time.Time, phases ...rotation.Phase) {
	tr.Helper()
	tr.Noticed("", since)
	if cuts(phases) {
		tr.outages(since)
		return
	}
	if len(tr.ControlPlanes()) == 2 {
		tr.onlyKeptConnectionsEnd(since)
	}
	tr.outages(since)
	tr.noWriteGapAbove(busyGap)
	tr.nobodyFenced()
}
