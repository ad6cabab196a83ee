package kubeletcert

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	w.run("has no former one to go back to: install this host anew, by holdfast host replace")
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
