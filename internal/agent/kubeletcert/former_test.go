package kubeletcert

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// damages are what a disk, and the repair of a file system after a power cut, leave of a file.
var damages = map[string]func(t *testing.T, path string){
	"empty": func(t *testing.T, path string) { rewrite(t, path, func([]byte) []byte { return nil }) },
	"in part": func(t *testing.T, path string) {
		rewrite(t, path, func(whole []byte) []byte { return whole[:len(whole)-60] })
	},
	"zeros": func(t *testing.T, path string) {
		rewrite(t, path, func(whole []byte) []byte { return make([]byte, len(whole)) })
	},
	"gone": func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	},
}

func rewrite(t *testing.T, path string, to func([]byte) []byte) {
	t.Helper()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, to(whole), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newDamaged makes a worker whose kubelet has lost its second certificate. The first one is
// as old as wanted.
func newDamaged(t *testing.T, damage func(*testing.T, string), first string) *early {
	t.Helper()
	w := newEarly(t, -30*day)
	if first == "expired" {
		w = newEarly(t, 30*day)
	}
	if err := os.Remove(w.file("kubelet-client-2035-11-19-08-00-00.pem", subject("worker-1"), newKey(t), w.now, w.now)); err != nil {
		t.Fatal(err)
	}
	second := w.file("kubelet-client-2028-11-19-08-00-00.pem", subject("worker-1"), newKey(t), w.now.Add(-day), w.now.Add(364*day))
	w.lead(filepath.Base(second), w.link())
	damage(t, second)
	return w
}

// kubelet does not start with a certificate that it cannot read
// (k8s.io/client-go/util/certificate, fileStore.Current).
func TestAKubeletWhoseCertificateIsDamagedGetsItsFormerOneBack(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			w := newDamaged(t, damage, "valid")
			result, err := w.step(t.Context())
			if err != nil || !strings.Contains(result.Changed, "kubelet has its former certificate again, until 2028-12-19T08:00:00Z: its last one cannot be read: "+w.link()) {
				t.Fatalf("%q, %v", result.Changed, err)
			}
			if own := w.kubelet(); validity(own, w.now) != valid {
				t.Errorf("kubelet has one from %s until %s", own.NotBefore, own.NotAfter)
			}
			if result, err := w.step(t.Context()); err != nil || result.Changed != "" || len(w.asked) != 0 {
				t.Errorf("there is more to do: %q, %v, %d requests", result.Changed, err, len(w.asked))
			}
		})
	}
}

// A former certificate that has expired is replaced in the next look, as any other one.
func TestAFormerCertificateThatHasExpiredIsThenReplaced(t *testing.T) {
	for _, role := range []string{"worker", "control plane"} {
		w := newDamaged(t, damages["empty"], "expired")
		if role == "control plane" {
			w.controlPlane()
		}
		for range 2 {
			if _, err := w.step(t.Context()); err != nil {
				t.Fatalf("%s: %v", role, err)
			}
		}
		if own := w.kubelet(); validity(own, w.now) != valid || own.Subject.CommonName != "system:node:worker-1" {
			t.Errorf("%s: kubelet has one of %s until %s", role, own.Subject, own.NotAfter)
		}
	}
}

// A former certificate of an authority that was replaced since opens nothing. Which one that is,
// nobody knows while the file of authorities cannot be read.
func TestNoKubeletGoesBackToACertificateOfAFormerAuthority(t *testing.T) {
	w := newDamaged(t, damages["empty"], "valid")
	other := w.site.Identity.EtcdCA.Cert
	for text, want := range map[string]string{other: "has no former one to go back to", "": "whether the API takes a former one is not known"} {
		if err := os.WriteFile(w.Root+state.KubernetesCA, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		w.run(want)
	}
	if err := os.WriteFile(w.Root+state.KubernetesCA, []byte(other+w.site.Identity.KubernetesCA.Cert), 0o600); err != nil {
		t.Fatal(err)
	}
	if result, err := w.step(t.Context()); err != nil || !strings.Contains(result.Changed, "kubelet has its former certificate again") {
		t.Errorf("%q, %v", result.Changed, err)
	}
}

func TestAKubeletWithoutAnyFormerCertificateIsToldOf(t *testing.T) {
	w := newDamaged(t, damages["empty"], "valid")
	if err := os.Remove(filepath.Join(filepath.Dir(w.link()), "kubelet-client-2027-01-01-00-00-00.pem")); err != nil {
		t.Fatal(err)
	}
	w.run("cannot be read: " + w.link())
	w.run("has no former one to go back to: install this host anew, by holdfast host replace NAME --is-gone NAME --join-file NAME.ign, once it is off")
	w.run("While its Node is ready, leave it running")
	w.Running = func() (string, error) { return "", nil }
	if _, err := w.step(t.Context()); err == nil || strings.Contains(err.Error(), "leave it running") {
		t.Errorf("no kubelet runs: %v", err)
	}
}

// newLone makes a control plane whose kubelet has lost the only certificate that it ever had.
func newLone(t *testing.T, damage func(*testing.T, string)) *early {
	t.Helper()
	w := newDamaged(t, damage, "valid").controlPlane()
	member := w.Root + state.EtcdPKIDir + "/peer.crt"
	cert := w.sign(pkix.Name{CommonName: "worker-1"}, newKey(t).Public(), w.now, w.now.Add(day))
	if err := errors.Join(
		os.Remove(filepath.Join(filepath.Dir(w.link()), "kubelet-client-2027-01-01-00-00-00.pem")),
		os.MkdirAll(filepath.Dir(member), 0o700), os.WriteFile(member, cert, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return w
}

// The key of the authority is beside it, and nobody has to install such a host anew.
func TestAControlPlaneWithoutAnyFormerCertificateSignsAnother(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			const inMemory = "the kubelet that runs has the lost one in memory"
			w := newLone(t, damage)
			if name == "zeros" {
				w.Running = func() (string, error) { return "", nil }
			}
			result, err := w.step(t.Context())
			if err != nil || !strings.HasPrefix(result.Changed, "kubelet has another certificate, until 2029-11-19T08:00:00Z: its last one cannot be read: "+w.link()) {
				t.Fatalf("%q, %v", result.Changed, err)
			}
			if strings.Contains(result.Changed, inMemory) == (name == "zeros") {
				t.Errorf("of a kubelet that runs, or does not: %q", result.Changed)
			}
			own := w.kubelet()
			if authority, err := w.site.Identity.KubernetesCA.Parse(); err != nil || own.CheckSignatureFrom(authority) != nil {
				t.Errorf("it is not of the authority of the site: %v", err)
			}
			if own.Subject.String() != w.later.Subject.String() || !slices.Equal(own.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) ||
				own.KeyUsage != x509.KeyUsageDigitalSignature || own.IsCA || validity(own, w.now) != valid {
				t.Errorf("kubelet has one of %s from %s until %s", own.Subject, own.NotBefore, own.NotAfter)
			}
			if result, err := w.step(t.Context()); err != nil || result.Changed != "" || len(w.asked) != 0 {
				t.Errorf("there is more to do: %q, %v, %d requests", result.Changed, err, len(w.asked))
			}
			if w.starts != 1 {
				t.Error("kubelet was restarted")
			}
		})
	}
}

func TestAControlPlaneThatCannotSignForItsKubeletSaysWhy(t *testing.T) {
	for want, lacks := range map[string]func(w *early) error{
		"another one: ca.key is not there": func(w *early) error {
			w.Sign = func(string, string) (string, error) { return "", errors.New("ca.key is not there") }
			return nil
		},
		"the name of this node: open ": func(w *early) error { return os.Remove(w.Root + state.EtcdPKIDir + "/peer.crt") },
		"peer.crt holds no certificate": func(w *early) error {
			return os.WriteFile(w.Root+state.EtcdPKIDir+"/peer.crt", nil, 0o600)
		},
	} {
		w := newLone(t, damages["empty"])
		if err := lacks(w); err != nil {
			t.Fatal(err)
		}
		if _, err := w.step(t.Context()); errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it counts as a host that has not joined", want)
		}
		w.run(want)
		if _, err := w.store().Current(); err == nil {
			t.Errorf("%s: kubelet has a certificate", want)
		}
	}
}

// A worker that has lived on after the end of its former certificate has shown it to the cluster: a
// control plane takes that one for a copy.
func TestAWorkerGetsAnotherForAFormerOneOnlyIfItWasNotAliveAfterItsEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		seen time.Duration // before now
		want string
	}{
		{"it was off when it ended", 31 * day, ""},
		{"it lived on", day, "this is an old copy: if this host is yours, switch it off, and install it anew by: holdfast host replace worker-1 --is-gone worker-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newDamaged(t, damages["empty"], "expired")
			w.judge = func(x joining.Expired) error {
				nodes := []state.Node{{Name: "worker-1", Created: x.Issued}}
				_, err := joining.Renew(joining.Site{ControlPlanes: 2, Named: []string{"cp-1", "cp-2"}}, x, nodes, nil, w.now.Add(-c.seen), w.now)
				return err
			}
			result, err := w.step(t.Context())
			if err != nil || !strings.Contains(result.Changed, "a control plane gives another for it only if this host was last alive before that end; the kubelet that runs has") {
				t.Fatalf("%q, %v", result.Changed, err)
			}
			w.run(c.want)
			if got := validity(w.kubelet(), w.now) == valid; got != (c.want == "") {
				t.Errorf("kubelet has one until %s", w.kubelet().NotAfter)
			}
		})
	}
}

// A host that has not joined yet has no certificate, and nothing to go back to.
func TestNoCertificateYetIsNoDamage(t *testing.T) {
	w := newDamaged(t, damages["empty"], "valid")
	if err := os.Remove(w.link()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.step(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// A disk that does not answer says nothing about the file.
func TestAFileThatCannotBeOpenedIsLeftAlone(t *testing.T) {
	w := newDamaged(t, damages["empty"], "valid")
	if err := os.Remove(w.link()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.link(), 0o700); err != nil {
		t.Fatal(err)
	}
	w.run("is a directory")
}

func TestAServingCertificateThatCannotBeReadIsTakenAwaySoThatKubeletAsksForAnother(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			w := newEarly(t, -30*day)
			if err := os.Remove(w.link()); err != nil {
				t.Fatal(err)
			}
			w.lead("kubelet-client-2027-01-01-00-00-00.pem", w.link())
			link := w.Root + kubeadm.ServingCertificate
			path := w.file("kubelet-server-2028-11-19-08-00-00.pem", subject("worker-1"), newKey(t), w.now, w.now.Add(day))
			w.lead(filepath.Base(path), link)
			damage(t, path)
			result, err := w.step(t.Context())
			if err != nil || !strings.Contains(result.Changed, "kubelet asks for another certificate to serve by: its last one cannot be read: "+link) {
				t.Fatalf("%q, %v", result.Changed, err)
			}
			if _, err := os.Lstat(link); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the link is still there: %v", err)
			}
		})
	}
}
