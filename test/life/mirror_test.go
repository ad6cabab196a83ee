package life_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/test/labsite"
)

// The registry that nobody reaches, the file that names its mirror, and the mirror's
// port and repository.
const (
	upstream   = "registry.example"
	mirrorFile = state.MirrorsFolder + upstream + "/hosts.toml"
	mirrorPort = 5055
	repository = "life/hello"
	mirrorMC   = "61-life-mirror"
)

// TestAnImageIsPulledThroughAMirrorWithCredentials names a mirror of a registry, first
// with a wrong password and then with the right one. A pod on a control plane gets its
// image with the right one only. No host boots for either.
func TestAnImageIsPulledThroughAMirrorWithCredentials(t *testing.T) {
	open(t)
	program, digest := builtRegistry(t)
	play(t, "a mirror with credentials", func(tr *trial) {
		host, since := tr.ControlPlanes()[0], tr.Now()
		boots := map[string]string{}
		for _, h := range tr.ControlPlanes() {
			boots[h] = tr.boot(h)
		}
		right := "life:" + rand.Text()
		m := tr.runMirror(host, program, right)
		image := upstream + "/" + repository + "@" + digest
		tr.Cleanup(func() {
			tr.Remove(tr.T, pulling(host, image), &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: mirrorMC}})
		})

		tr.named(m, "life:"+rand.Text())
		tr.create(pulling(host, image))
		tr.Eventually(3*time.Minute, "the pull is refused", func() error {
			st, err := tr.container(host, image)
			if err != nil {
				return err
			}
			if w := st.State.Waiting; w == nil || !slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, w.Reason) {
				return fmt.Errorf("its state is %+v", st.State)
			}
			return m.said("refused ")
		})
		if m.said("granted ") == nil {
			tr.Errorf("the mirror gave something to a wrong password")
		}
		tr.delete(pulling(host, image))

		tr.named(m, right)
		began := time.Now()
		tr.create(pulling(host, image))
		tr.Eventually(3*time.Minute, "the pod runs with the image of the mirror", func() error {
			st, err := tr.container(host, image)
			if err != nil {
				return err
			}
			if end := st.State.Terminated; end == nil || end.ExitCode != 0 || !strings.Contains(st.ImageID, digest) {
				return fmt.Errorf("its image is %q, its state is %+v", st.ImageID, st.State)
			}
			return m.said("granted GET /v2/" + repository + "/blobs/")
		})
		tr.Trial.Took("from the pod to its end", time.Since(began))
		tr.delete(pulling(host, image))

		tr.delete(&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: mirrorMC}})
		tr.settled("no control plane names the mirror", func(host string) error {
			if _, err := tr.ReadFile(tr.Context(), host, mirrorFile); !errors.Is(err, fs.ErrNotExist) {
				return errors.Join(err, fmt.Errorf("%s: %s is still there", host, mirrorFile))
			}
			return nil
		})
		for h, before := range boots {
			if tr.boot(h) != before {
				tr.Errorf("%s has booted, and nothing needed that", h)
			}
		}
		tr.Noticed("", since)
		tr.NothingFailed("named and taken back", since, application)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// The registry that nobody reaches of the set of mirrors, and the file that names its
// mirror.
const (
	setOf   = "sets.example"
	setFile = state.MirrorsFolder + setOf + "/hosts.toml"
	setName = "life"
)

// TestAnImageIsPulledThroughASetOfMirrors names a mirror of a registry in an
// ImageDigestMirrorSet. All control planes know it without a boot, and a pod gets its image
// by the mirror. Once the set is deleted they know it no more. Mirrors of sets are asked by
// HTTPS, so a person has the host trust the mirror's certificate before.
//
// It takes about six minutes.
func TestAnImageIsPulledThroughASetOfMirrors(t *testing.T) {
	open(t)
	program, digest := builtRegistry(t)
	play(t, "a set of mirrors", func(tr *trial) {
		host := tr.ControlPlanes()[0]
		boots := map[string]string{}
		for _, h := range tr.ControlPlanes() {
			boots[h] = tr.boot(h)
		}
		m := tr.runMirror(host, program, "")
		m.trusted()
		image := setOf + "/" + repository + "@" + digest
		set := &configv1.ImageDigestMirrorSet{
			ObjectMeta: metav1.ObjectMeta{Name: setName},
			Spec: configv1.ImageDigestMirrorSetSpec{ImageDigestMirrors: []configv1.ImageDigestMirrors{
				{Source: setOf, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(m.at.String())}},
			}},
		}
		tr.Cleanup(func() { tr.Remove(tr.T, pulling(host, image), set) })

		since := tr.Now()
		tr.create(set)
		tr.settled("every control plane names the mirror", func(host string) error {
			data, err := tr.ReadFile(tr.Context(), host, setFile)
			if err == nil && !strings.Contains(string(data), "https://"+m.at.String()) {
				err = fmt.Errorf("%s: %s does not name the mirror:\n%s", host, setFile, data)
			}
			return err
		})
		tr.Trial.Took("until all name the mirror", time.Since(since))
		tr.create(pulling(host, image))
		tr.Eventually(3*time.Minute, "the pod runs with the image of the mirror", func() error {
			st, err := tr.container(host, image)
			if err != nil {
				return err
			}
			if end := st.State.Terminated; end == nil || end.ExitCode != 0 || !strings.Contains(st.ImageID, digest) {
				return fmt.Errorf("its image is %q, its state is %+v", st.ImageID, st.State)
			}
			return m.said("granted ")
		})
		tr.delete(pulling(host, image))

		tr.delete(set)
		tr.settled("no control plane names the mirror", func(host string) error {
			if _, err := tr.ReadFile(tr.Context(), host, setFile); !errors.Is(err, fs.ErrNotExist) {
				return errors.Join(err, fmt.Errorf("%s: %s is still there", host, setFile))
			}
			return nil
		})
		for h, before := range boots {
			if tr.boot(h) != before {
				tr.Errorf("%s has booted, and nothing needed that", h)
			}
		}
		tr.Noticed("", since)
		tr.NothingFailed("named and taken back", since, application)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
}

// trusted has the host of a mirror trust its certificate. containerd reads those once, so
// it is restarted. The test's end takes the certificate away.
func (m *mirror) trusted() {
	m.tr.Helper()
	const file = "/usr/local/share/ca-certificates/life-registry.crt"
	const again = "update-ca-certificates >/dev/null 2>&1 && systemctl restart containerd"
	m.tr.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(m.tr.Context()), time.Minute)
		defer cancel()
		if _, err := m.tr.Sh(ctx, m.host, sbin+"rm -f "+file+"; "+again); err != nil {
			m.tr.Errorf("take the mirror's certificate away: %v", err)
		}
	})
	m.tr.On(m.host, sbin+"cp "+m.certificate+" "+file+" && "+again)
	m.tr.Eventually(labsite.WholeWithin, "the site is whole after the restart of containerd", func() error { return m.tr.Whole(m.tr.Context()) })
	m.tr.Steady("with the mirror's certificate")
}

// builtRegistry builds the registry, and returns its path and the digest of its image.
func builtRegistry(t *testing.T) (program, digest string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "registry")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./registry")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // its image has no library
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the registry: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, "-repository", repository).Output()
	if err != nil {
		t.Fatalf("the digest of its image: %v", err)
	}
	return program, strings.TrimSpace(string(out))
}

// mirror is a registry that runs on a host, as a unit of systemd.
type mirror struct {
	tr         *trial
	host, unit string
	// certificate is the file with the certificate of one that serves HTTPS.
	certificate string
	at          netip.AddrPort
}

// runMirror runs the registry on a host, for who has an account, or by HTTPS for everybody
// if that is empty. The test's end stops it and removes its files.
func (tr *trial) runMirror(host, program, account string) *mirror {
	tr.Helper()
	m := &mirror{
		tr: tr, host: host, unit: fmt.Sprintf("life-registry-%d", time.Now().UnixMilli()),
		at: netip.AddrPortFrom(tr.Address(host, lab.V4), mirrorPort),
	}
	root, err := tr.Lab.Root(tr.Context(), tr.Power, host)
	if err != nil {
		tr.Fatal(err)
	}
	data, err := os.ReadFile(program) // #nosec G304 -- built by the test
	if err != nil {
		tr.Fatal(err)
	}
	there, secret := "/usr/local/bin/"+m.unit, "/root/"+m.unit
	scheme, guards, toNobody := "http", "-account "+secret, "401"
	if account == "" {
		m.certificate = secret + ".crt"
		scheme, guards, toNobody = "https", "-certificate "+m.certificate, "200"
	}
	tr.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tr.Context()), time.Minute)
		defer cancel()
		if _, err := tr.Sh(ctx, host, "systemctl stop "+m.unit+" || true; rm -f "+there+" "+secret+" "+m.certificate); err != nil {
			tr.Errorf("stop the registry: %v", err)
		}
	})
	err = errors.Join(os.WriteFile(root+there, data, 0o755), os.WriteFile(root+secret, []byte(account), 0o600)) // #nosec G306 -- a program
	if err != nil {
		tr.Fatal(err)
	}
	tr.On(host, fmt.Sprintf("systemd-run --quiet --collect --unit=%s %s -listen %s -repository %s %s", m.unit, there, m.at, repository, guards))
	tr.Eventually(time.Minute, "the registry answers", func() error {
		out, err := tr.Sh(tr.Context(), host, "curl -sk -o /dev/null -w '%{http_code}' "+scheme+"://"+m.at.String()+"/v2/")
		if err == nil && out != toNobody {
			err = fmt.Errorf("it answers %s to nobody", out)
		}
		return err
	})
	return m
}

// said returns nil if the registry has written a line that begins so, about the image.
func (m *mirror) said(begin string) error {
	out, err := m.tr.Sh(m.tr.Context(), m.host, "journalctl --no-pager -o cat -u "+m.unit)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		if strings.Contains(line, begin) && strings.Contains(line, "/v2/"+repository+"/") {
			return nil
		}
	}
	return fmt.Errorf("the registry has not said %q", begin)
}

// named has all control planes ask the mirror, with an account, instead of the registry.
func (tr *trial) named(m *mirror, account string) {
	tr.Helper()
	url := "http://" + m.at.String()
	text := fmt.Sprintf("server = %[1]q\n[host.%[1]q]\ncapabilities = [\"pull\", \"resolve\"]\n[host.%[1]q.header]\nauthorization = \"Basic %[2]s\"\n",
		url, base64.StdEncoding.EncodeToString([]byte(account)))
	secret := file(mirrorFile, text)
	secret["mode"] = 0o600
	raw, err := json.Marshal(map[string]any{
		"ignition": map[string]any{"version": "3.5.0"}, "storage": map[string]any{"files": []any{secret}},
	})
	if err != nil {
		tr.Fatal(err)
	}
	tr.wish(&mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: mirrorMC, Labels: map[string]string{mcfgv1.MachineConfigRoleLabelKey: rollout.Master}},
		Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}},
	})
	tr.settled("every control plane names the mirror", func(host string) error {
		data, err := tr.ReadFile(tr.Context(), host, mirrorFile)
		if err == nil && string(data) != text {
			err = fmt.Errorf("%s has another %s", host, mirrorFile)
		}
		return err
	})
	for _, h := range tr.ControlPlanes() {
		if mode := tr.On(h, "stat -c %a "+mirrorFile); mode != "600" {
			tr.Errorf("%s: the mode of %s is %s, and it has credentials", h, mirrorFile, mode)
		}
	}
}

// pulling is a pod that always asks for its image.
func pulling(host, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "life-pull"},
		Spec: corev1.PodSpec{
			NodeName: host, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "hello", Image: image, ImagePullPolicy: corev1.PullAlways}},
		},
	}
}

// container returns the state of the one container of that pod.
func (tr *trial) container(host, image string) (corev1.ContainerStatus, error) {
	p := pulling(host, image)
	if err := tr.API.Get(tr.Context(), client.ObjectKeyFromObject(p), p); err != nil {
		return corev1.ContainerStatus{}, err
	}
	if len(p.Status.ContainerStatuses) != 1 {
		return corev1.ContainerStatus{}, fmt.Errorf("%d containers have a state, the pod is %s", len(p.Status.ContainerStatuses), p.Status.Phase)
	}
	return p.Status.ContainerStatuses[0], nil
}

// create makes an object, and delete waits until it is gone.
func (tr *trial) create(o client.Object) {
	tr.Helper()
	tr.Eventually(time.Minute, "the object is created", func() error {
		if err := tr.API.Create(tr.Context(), o.DeepCopyObject().(client.Object)); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
}

func (tr *trial) delete(o client.Object) {
	tr.Helper()
	tr.Eventually(time.Minute, "the object is gone", func() error {
		if err := tr.API.Delete(tr.Context(), o); !apierrors.IsNotFound(err) {
			return errors.Join(err, errors.New("it is there"))
		}
		return nil
	})
}
