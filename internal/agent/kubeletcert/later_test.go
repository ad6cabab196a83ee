package kubeletcert

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/certificate"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	decide "github.com/holdfast/holdfast/internal/decide/leafcert"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
)

// early is a host whose kubelet runs with a certificate of seven years later.
type early struct {
	*world
	later *x509.Certificate
	// starts counts how often kubelet was started, and has is the certificate that it
	// read then. A kubelet whose certificate has expired does not start.
	starts int
	has    *x509.Certificate
	// synchronised is false if nothing synchronises the clock.
	synchronised bool
}

// newEarly makes such a worker. Its former certificate ended a while ago.
func newEarly(t *testing.T, ago time.Duration) *early {
	t.Helper()
	w := &early{world: newWorld(t, ago), synchronised: true}
	if err := os.MkdirAll(filepath.Dir(w.Root+unreadPath), 0o755); err != nil {
		t.Fatal(err)
	}
	w.file("kubelet-client-2035-11-19-08-00-00.pem", subject("worker-1"), newKey(t), w.now.Add(7*365*day), w.now.Add(8*365*day))
	w.lead("kubelet-client-2035-11-19-08-00-00.pem", w.link())
	w.later = w.kubelet()
	w.Synchronised = func() (bool, error) { return w.synchronised, nil }
	w.Running = func() (string, error) { return w.runs(), nil }
	w.Restart = func(context.Context) error { w.start(); return nil }
	w.start()
	return w
}

// controlPlane makes the host one that signs.
func (w *early) controlPlane() *early {
	ca := w.site.Identity.KubernetesCA
	w.Servers = nil
	w.Sign = func(old, key string) (string, error) {
		return keys.Renew(old, key, ca.Cert, ca.Key, 365*day, w.now)
	}
	return w
}

func (w *early) runs() string { return "run " + strconv.Itoa(w.starts) }

func (w *early) start() {
	w.t.Helper()
	if own := w.kubelet(); !w.now.After(own.NotAfter) {
		w.starts++
		w.has = own
	}
}

// file writes a certificate of the site, with a key, into kubelet's folder.
func (w *early) file(name string, subject pkix.Name, key *ecdsa.PrivateKey, from, until time.Time) string {
	w.t.Helper()
	path := filepath.Join(filepath.Dir(w.link()), name)
	pair := append(w.sign(subject, key.Public(), from, until), pemOf(w.t, key)...)
	if err := os.WriteFile(path, pair, 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// lead makes a link lead to a file of kubelet's folder, as kubelet does.
func (w *early) lead(name, link string) {
	w.t.Helper()
	_ = os.Remove(link) // there may be none
	if err := os.Symlink(filepath.Join(filepath.Dir(link), name), link); err != nil {
		w.t.Fatal(err)
	}
}

// word is an administrator's, of a while ago.
func (w *early) word(ago time.Duration) {
	w.t.Helper()
	text := `{"at":"` + w.now.Add(-ago).UTC().Format(time.RFC3339) + `"}`
	if err := os.WriteFile(w.Root+decide.AcceptedPath, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// run runs the loop once.
func (w *early) run(wantError string) {
	w.t.Helper()
	if _, err := w.step(w.t.Context()); (err == nil) != (wantError == "") || err != nil && !strings.Contains(err.Error(), wantError) {
		w.t.Fatalf("%v, want %q", err, wantError)
	}
}

// uses checks that kubelet was started anew so often, and with the certificate in its file.
func (w *early) uses(restarts int) {
	w.t.Helper()
	if own := w.kubelet(); w.starts != 1+restarts || !w.has.Equal(own) {
		w.t.Fatalf("kubelet was restarted %d times, want %d, and its file is until %s, what it read until %s", w.starts-1, restarts, own.NotAfter, w.has.NotAfter)
	}
}

// done checks that kubelet uses a certificate that is valid, and that nothing is left to do.
func (w *early) done(restarts int) {
	w.t.Helper()
	w.uses(restarts)
	if own := w.kubelet(); validity(own, w.now) != valid || own.Subject.String() != w.later.Subject.String() {
		w.t.Errorf("kubelet has %s from %s until %s", own.Subject, own.NotBefore, own.NotAfter)
	}
	if _, err := os.Stat(w.Root + unreadPath); !errors.Is(err, fs.ErrNotExist) {
		w.t.Errorf("the note is still there: %v", err)
	}
	if result, err := w.step(w.t.Context()); err != nil || result.Changed != "" {
		w.t.Errorf("there is more to do: %+v, %v", result, err)
	}
	w.uses(restarts)
}

// docs/facts/life.md#certificates, L-C11.
func TestAKubeletCertificateFromALaterDayIsReplacedOnceAnAdministratorAcceptsTheClock(t *testing.T) {
	const ask = "compare the clocks (date -u) and set the wrong one (chronyc makestep), or if this one is right: sudo holdfast certificates clock --accept"
	w := newEarly(t, 400*day).controlPlane()
	w.run("the clock of this host says 2028-11-19T08:00:00Z, and kubelet's certificate was issued at 2035-11-18T08:00:00Z: " + ask)
	w.word(decide.AcceptLimit + time.Minute)
	w.run(ask)
	w.word(-time.Minute) // the clock went back since
	w.run(ask)
	w.word(time.Minute)
	w.synchronised = false
	w.run(ask)
	w.uses(0)
	w.synchronised = true
	w.run("")
	authority, err := w.site.Identity.KubernetesCA.Parse()
	if err != nil {
		t.Fatal(err)
	}
	if own := w.kubelet(); own.CheckSignatureFrom(authority) != nil || !own.NotAfter.Equal(w.now.Add(365*day)) {
		t.Errorf("kubelet has a certificate of %s until %s", own.Issuer, own.NotAfter)
	}
	w.done(1)
}

func TestWhatAControlPlaneSignsForItsKubeletMustBeValidNow(t *testing.T) {
	w := newEarly(t, 400*day).controlPlane()
	w.Sign = func(_, key string) (string, error) {
		block, _ := pem.Decode([]byte(key))
		owner, err := x509.ParseECPrivateKey(block.Bytes)
		if err != nil {
			return "", err
		}
		return string(w.sign(subject("worker-1"), owner.Public(), w.now.Add(day), w.now.Add(2*day))), nil
	}
	w.word(0)
	w.run("the new certificate is valid from 2028-11-20T08:00:00Z")
	w.Sign = func(string, string) (string, error) { return "", errors.New("ca.key is not there") }
	w.run("the certificate of kubelet is valid only from 2035-11-18T08:00:00Z on; another one: ca.key is not there")
	if !w.kubelet().Equal(w.later) {
		t.Error("kubelet's certificate was replaced all the same")
	}
	w.uses(0)
}

func TestAWorkerGoesBackToItsFormerCertificate(t *testing.T) {
	w := newEarly(t, -100*day)
	w.file("kubelet-client-2026-01-01-00-00-00.pem", subject("worker-1"), newKey(t), w.now.Add(-700*day), w.now.Add(-335*day))
	w.file("kubelet-client-2028-01-01-00-00-00.pem", subject("worker-1"), newKey(t), w.now.Add(-300*day), w.now.Add(65*day))
	w.run("certificates clock --accept")
	w.uses(0)
	w.word(time.Minute)
	w.run("")
	if end := w.kubelet().NotAfter; !end.Equal(w.now.Add(100 * day)) {
		t.Errorf("kubelet has the certificate until %s", end)
	}
	if len(w.asked) != 0 {
		t.Error("a control plane was asked")
	}
	w.done(1)
}

func TestAWorkerWhoseFormerCertificateHasExpiredGetsAnotherForIt(t *testing.T) {
	w := newEarly(t, 30*day)
	w.word(time.Minute)
	w.answer = func() ([]byte, error) { return nil, errors.New("the API is away") }
	w.run("")
	w.run("expired at 2028-10-20T08:00:00Z, so kubelet would not start again (it runs: ")
	if w.starts != 1 {
		t.Fatal("kubelet was started anew, and does not start with that certificate")
	}
	w.answer = nil
	w.now = w.now.Add(3 * time.Hour) // the word is over, and it was heard
	w.run("")
	w.done(1)
}

func TestAWorkerGoesBackToNoFileOfAnotherKind(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(w *early)
	}{
		{"none", func(*early) {}},
		{"of another node", func(w *early) {
			w.file("kubelet-client-a.pem", subject("worker-2"), newKey(w.t), w.now.Add(-day), w.now.Add(day))
		}},
		{"without its key", func(w *early) {
			path := w.file("kubelet-client-a.pem", subject("worker-1"), newKey(w.t), w.now.Add(-day), w.now.Add(day))
			if err := os.WriteFile(path, w.sign(subject("worker-1"), newKey(w.t).Public(), w.now.Add(-day), w.now.Add(day)), 0o600); err != nil {
				w.t.Fatal(err)
			}
		}},
		{"with another key", func(w *early) {
			path := w.file("kubelet-client-a.pem", subject("worker-1"), newKey(w.t), w.now.Add(-day), w.now.Add(day))
			pair := append(w.sign(subject("worker-1"), newKey(w.t).Public(), w.now.Add(-day), w.now.Add(day)), pemOf(w.t, newKey(w.t))...)
			if err := os.WriteFile(path, pair, 0o600); err != nil {
				w.t.Fatal(err)
			}
		}},
		{"of a later day too", func(w *early) {
			w.file("kubelet-client-a.pem", subject("worker-1"), newKey(w.t), w.now.Add(day), w.now.Add(2*day))
		}},
		{"of a former authority", func(w *early) {
			other, err := keys.Generate(w.now.Add(-day), rand.Reader)
			if err != nil {
				w.t.Fatal(err)
			}
			site := *w.site
			site.Identity.KubernetesCA = other.KubernetesCA
			foreign := early{world: &world{Keeper: w.Keeper, t: w.t, site: &site}}
			foreign.file("kubelet-client-a.pem", subject("worker-1"), newKey(w.t), w.now.Add(-day), w.now.Add(day))
		}},
		{"cut off", func(w *early) {
			path := w.file("kubelet-client-a.pem", subject("worker-1"), newKey(w.t), w.now.Add(-day), w.now.Add(day))
			if err := os.Truncate(path, 600); err != nil {
				w.t.Fatal(err)
			}
		}},
		{"of the serving certificate", func(w *early) {
			w.file("kubelet-server-a.pem", subject("worker-1"), newKey(w.t), w.now.Add(-day), w.now.Add(day))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newEarly(t, -100*day)
			if err := os.Remove(filepath.Join(filepath.Dir(w.link()), "kubelet-client-2027-01-01-00-00-00.pem")); err != nil {
				t.Fatal(err)
			}
			c.write(w)
			w.word(time.Minute)
			w.run("is valid only from 2035-11-18T08:00:00Z on, and " + filepath.Dir(w.link()) + " has no former one to go back to: install this host anew, by holdfast host replace")
			if !w.kubelet().Equal(w.later) {
				t.Error("kubelet's certificate was replaced all the same")
			}
			w.uses(0)
		})
	}
}

// On two control planes the agent writes the file, and a person has kubelet read it.
func TestNobodyRestartsAKubeletOfPacemakersForItsCertificate(t *testing.T) {
	w := newEarly(t, 400*day).controlPlane()
	w.Restart = nil
	w.word(time.Minute)
	w.run("Pacemaker decides when it may: sudo systemctl stop kubelet")
	w.now = w.now.Add(3 * time.Hour)
	w.run("Pacemaker decides when it may: sudo systemctl stop kubelet")
	if validity(w.kubelet(), w.now) != valid || !w.has.Equal(w.later) {
		t.Error("the file has no other certificate, or kubelet was restarted")
	}
	w.start()
	w.run("")
	w.done(1)
}

func TestARestartOfKubeletThatFailedIsTriedAgain(t *testing.T) {
	w := newEarly(t, -100*day)
	restart := w.Restart
	w.Restart = func(context.Context) error { return errors.New("systemd does not answer") }
	w.word(time.Minute)
	w.run("restart kubelet, which reads its certificate only when it starts: systemd does not answer")
	w.Restart = restart
	w.run("")
	w.done(1)
}

// TestWhereverTheReplacementIsCutOffTheNextRunEndsIt prepares what each cut leaves.
func TestWhereverTheReplacementIsCutOffTheNextRunEndsIt(t *testing.T) {
	note := func(w *early, runs string) {
		if err := w.unread(runs); err != nil {
			w.t.Fatal(err)
		}
	}
	back := func(w *early) {
		if _, err := w.back(w.later); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name     string
		cut      func(w *early)
		restarts int
	}{
		{"before anything", func(*early) {}, 1},
		{"after the note", func(w *early) { note(w, "") }, 1},
		{"after the note, and kubelet started by itself", func(w *early) { note(w, ""); w.start() }, 2},
		{"with a link that is not used yet", func(w *early) { note(w, ""); w.lead("kubelet-client-2027-01-01-00-00-00.pem", w.link()+".holdfast") }, 1},
		{"after the link moved", func(w *early) { note(w, ""); back(w) }, 1},
		{"after the note of the kubelet that runs", func(w *early) { back(w); note(w, w.runs()) }, 1},
		{"after the restart", func(w *early) { back(w); note(w, w.runs()); w.start() }, 1},
		{"by a boot, which ends the note", func(w *early) { back(w); w.start() }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newEarly(t, -100*day)
			w.word(time.Minute)
			c.cut(w)
			w.run("")
			w.done(c.restarts)
		})
	}
}

func TestAServingCertificateFromALaterDayIsTakenAwaySoThatKubeletAsksForAnother(t *testing.T) {
	w := newEarly(t, -100*day)
	w.lead("kubelet-client-2027-01-01-00-00-00.pem", w.link()) // its own one is right
	w.later = w.kubelet()
	w.start()
	w.starts = 1
	link := w.Root + kubeadm.ServingCertificate
	w.file("kubelet-server-a.pem", subject("worker-1"), newKey(t), w.now.Add(-day), w.now.Add(day))
	w.lead("kubelet-server-a.pem", link)
	w.run("")
	w.uses(0)
	w.file("kubelet-server-b.pem", subject("worker-1"), newKey(t), w.now.Add(7*365*day), w.now.Add(8*365*day))
	w.lead("kubelet-server-b.pem", link)
	w.run("the certificate by which kubelet serves was issued at 2035-11-18T08:00:00Z: compare the clocks")
	w.uses(0)
	w.word(time.Minute)
	w.run("")
	store, err := certificate.NewFileStore("kubelet-server", filepath.Dir(link), filepath.Dir(link), "", "")
	if err != nil {
		t.Fatal(err)
	}
	var none *certificate.NoCertKeyError
	if _, err := store.Current(); !errors.As(err, &none) { // then kubelet asks for one
		t.Errorf("kubelet finds a certificate: %v", err)
	}
	w.done(1)
}
