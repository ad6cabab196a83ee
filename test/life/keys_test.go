package life_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/encryption"
	"github.com/holdfast/holdfast/internal/lab"
	model "github.com/holdfast/holdfast/internal/model/site"
)

// TestTheEncryptionKeyIsReplacedUnderLoad replaces the key that encrypts Secrets in etcd,
// without a power cut and with one of the last control plane in each step. The command
// ends as if nothing had been, each API server reads what was written before, and without
// a cut no request fails.
//
// A rotation takes five minutes, with a cut eight: half an hour in all.
func TestTheEncryptionKeyIsReplacedUnderLoad(t *testing.T) {
	play(t, "encryption key replaced", func(tr *trial) {
		tr.hides()
		since := tr.Now()
		read := tr.keepsReading()
		tr.says(0, "encryption", "rotate", "--without-backup")
		tr.Trial.Took("until it is replaced", time.Since(since))
		read()
		tr.readable()
		tr.Noticed("", since)
		tr.NothingFailed("replaced", since, tr.Clients()...)
		tr.outages(since)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
	for _, q := range []struct {
		step string
		is   func(k encryption.Keys) bool
	}{
		{"to read the new key", func(k encryption.Keys) bool { return len(k) == 2 && k[0] < k[1] }},
		{"to write with the new key", func(k encryption.Keys) bool { return len(k) == 2 && k[0] > k[1] }},
		{"to drop the old key", func(k encryption.Keys) bool { return len(k) == 1 }},
	} {
		if t.Failed() {
			return
		}
		play(t, "encryption key replaced, power cut while API servers are "+q.step, func(tr *trial) { tr.cutWhenKeys(q.is) })
	}
}

// cutWhenKeys replaces the key of encryption, and cuts the power of the last control plane
// once the keys are wanted that a step wants.
func (tr *trial) cutWhenKeys(is func(encryption.Keys) bool) {
	tr.Helper()
	tr.hides()
	planes, before := tr.ControlPlanes(), ""
	if had, err := tr.wantedKeys(); err == nil {
		before = had.String()
	}
	since := tr.Now()
	read := tr.keepsReading()
	command := tr.starts("encryption", "rotate", "--without-backup")
	tr.Eventually(10*time.Minute, "the step begins", func() error {
		k, err := tr.wantedKeys()
		if err == nil && (k.String() == before || !is(k)) {
			err = fmt.Errorf("wanted are the keys %s, before the rotation %q", k, before)
		}
		return err
	})
	victim := planes[len(planes)-1]
	tr.Inject(lab.Fault{Host: victim, Kind: lab.FaultReset})
	tr.Logf("%s loses its power", victim)
	command.ends(0)
	tr.Trial.Took("until it is replaced", time.Since(since))
	read()
	tr.readable()
	tr.Noticed("", since)
	tr.outages(since)
}

// wantedKeys returns the keys that each API server is to have. Before the first rotation
// there are none.
func (tr *trial) wantedKeys() (encryption.Keys, error) {
	var cm corev1.ConfigMap
	if err := tr.API.Get(tr.Context(), client.ObjectKey{Namespace: encryption.WishNamespace, Name: encryption.WishName}, &cm); err != nil {
		return nil, err
	}
	return encryption.Parse(cm.Data[encryption.WishKeys])
}

// keysVersion returns the version of that wish, empty before the first rotation.
func (tr *trial) keysVersion() string {
	tr.Helper()
	var cm corev1.ConfigMap
	err := tr.API.Get(tr.Context(), client.ObjectKey{Namespace: encryption.WishNamespace, Name: encryption.WishName}, &cm)
	if client.IgnoreNotFound(err) != nil {
		tr.Fatal(err)
	}
	return cm.ResourceVersion
}

// The Secret that is written before a rotation, and what it hides.
const (
	hidden  = "life-hidden"
	hidesIt = "written before the rotation"
)

// hides writes a Secret. The test's end deletes it.
func (tr *trial) hides() {
	tr.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: hidden}, StringData: map[string]string{"text": hidesIt}}
	tr.Cleanup(func() { tr.Remove(tr.T, s) })
	tr.create(s)
}

// readEvery is the pause between two reads of the Secret by one API server.
const readEvery = 2 * time.Second

// keepsReading reads the Secret through each API server until the returned function is called,
// which fails the test if one answered with anything else. One that starts anew, or is off,
// answers nothing.
func (tr *trial) keepsReading() (stop func()) {
	tr.Helper()
	ctx, end := context.WithCancel(tr.Context())
	var all sync.WaitGroup
	var mu sync.Mutex
	right, silent, wrong := map[string]int{}, map[string]int{}, map[string]string{}
	for _, h := range tr.ControlPlanes() {
		api, err := tr.serverOf(h)
		if err != nil {
			tr.Fatal(err)
		}
		all.Go(func() {
			for ctx.Err() == nil {
				var s corev1.Secret
				err := api.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: hidden}, &s)
				_, answered := errors.AsType[*apierrors.StatusError](err)
				mu.Lock()
				switch {
				case err == nil && string(s.Data["text"]) == hidesIt:
					right[h]++
				case err == nil:
					wrong[h] = fmt.Sprintf("%q", s.Data["text"])
				case answered && !starting(err):
					wrong[h] = err.Error()
				default:
					silent[h]++
				}
				mu.Unlock()
				_ = host.Sleep(ctx, readEvery)
			}
		})
	}
	return func() {
		tr.Helper()
		end()
		all.Wait()
		tr.Logf("the Secret was read so many times by API server: %v; without an answer: %v", right, silent)
		for _, h := range tr.ControlPlanes() {
			if wrong[h] != "" || right[h] == 0 {
				tr.Errorf("the API server of %s read the Secret %d times, and once it answered %s", h, right[h], wrong[h])
			}
		}
	}
}

// starting reports whether an API server says that it cannot serve now: it starts, it ends,
// it knows no roles yet, or its etcd does not answer. One that lacks a key says InternalError.
func starting(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		slices.ContainsFunc([]string{"etcdserver:", "rpc error:", "context deadline exceeded", "context canceled"}, func(words string) bool {
			return strings.Contains(err.Error(), words)
		})
}

// serverOf returns a client of the API server of one host. It asks nobody which kinds there are.
func (tr *trial) serverOf(name string) (client.Client, error) {
	cfg := rest.CopyConfig(tr.access)
	address := net.JoinHostPort(tr.Address(name, lab.V4).String(), "6443")
	cfg.NextProtos, cfg.Timeout = []string{"http/1.1"}, 5*time.Second
	cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return tr.Lab.Dial(ctx, network, address)
	}
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	return client.New(cfg, client.Options{Scheme: scheme.Scheme, Mapper: kinds})
}

// readable checks that each API server reads the Secret, and that all have one key alone.
func (tr *trial) readable() {
	tr.Helper()
	want := base64.StdEncoding.EncodeToString([]byte(hidesIt))
	for _, h := range tr.ControlPlanes() {
		server := "https://" + net.JoinHostPort(tr.Address(h, lab.V4).String(), "6443")
		tr.Eventually(2*time.Minute, "the API server of "+h+" reads what was written before", func() error {
			got, err := tr.Sh(tr.Context(), h, "kubectl --kubeconfig /etc/kubernetes/admin.conf --server "+server+" --namespace "+metav1.NamespaceDefault+" get secret "+hidden+" -o jsonpath={.data.text}")
			if err == nil && got != want {
				err = fmt.Errorf("it reads %q, want %q", got, want)
			}
			return err
		})
	}
	tr.tells(0, []string{"and no other key"}, "encryption", "status")
}

// TestTheKeyOfJoinSecretsIsReplacedUnderLoad replaces the key that signs join secrets,
// without a power cut and with one of the last control plane while the command runs.
// Without a cut no control plane takes the secret of the install directory any more within
// seconds, and each takes that of a new join file, and no request fails. With a cut the
// command ends as without one, and the host that lost its power refuses the former secret
// from its first answer on.
//
// It takes two minutes, with the cut five.
func TestTheKeyOfJoinSecretsIsReplacedUnderLoad(t *testing.T) {
	play(t, "key of join secrets replaced", func(tr *trial) {
		pointer, err := os.ReadFile(filepath.Join(tr.Lab.SiteDir(), "worker.ign"))
		if err != nil {
			tr.Fatal(err)
		}
		former := tr.secretIn(string(pointer))
		tr.allTake(former)
		since := tr.Now()
		tr.says(0, "join-secret", "rotate", "--dir", tr.Lab.SiteDir())
		for _, h := range tr.ControlPlanes() {
			tr.Eventually(noticed, h+" refuses the former secret", func() error { return tr.opens(h, former, "401") })
		}
		tr.Trial.Took("until the former secret is refused", time.Since(since))
		tr.allTake(tr.newSecret())
		tr.Noticed("", since)
		tr.NothingFailed("replaced", since, tr.Clients()...)
		tr.outages(since)
		tr.noWriteGapAbove(busyGap)
		tr.nobodyFenced()
	})
	if t.Failed() {
		return
	}
	play(t, "key of join secrets replaced, power cut", func(tr *trial) {
		former := tr.newSecret()
		tr.allTake(former)
		planes := tr.ControlPlanes()
		victim := planes[len(planes)-1]
		since := tr.Now()
		command := tr.starts("join-secret", "rotate", "--dir", tr.Lab.SiteDir())
		tr.Inject(lab.Fault{Host: victim, Kind: lab.FaultReset})
		tr.Logf("%s loses its power", victim)
		command.ends(0)
		tr.Eventually(5*time.Minute, victim+" refuses the former secret", func() error {
			switch err := tr.opens(victim, former, "401"); {
			case err != nil && strings.Contains(err.Error(), "answers 200"):
				tr.Fatalf("after its boot: %v", err)
				return nil
			default:
				return err
			}
		})
		for _, h := range planes {
			tr.Eventually(noticed, h+" refuses the former secret", func() error { return tr.opens(h, former, "401") })
		}
		tr.allTake(tr.newSecret())
		tr.Noticed("", since)
		tr.outages(since)
	})
}

// newSecret returns the secret of a join file that nobody uses. The file says nothing to the
// cluster.
func (tr *trial) newSecret() string {
	tr.Helper()
	return tr.secretIn(tr.On(tr.ControlPlanes()[0], "holdfast host add --role worker --ttl 10m --stdout"))
}

// allTake checks that each control plane takes a secret.
func (tr *trial) allTake(secret string) {
	tr.Helper()
	for _, h := range tr.ControlPlanes() {
		tr.Eventually(noticed, h+" takes the secret", func() error { return tr.opens(h, secret, "200") })
	}
}

// joinSecret finds the join secret in an Ignition config.
var joinSecret = regexp.MustCompile(`Bearer ([^"\s]+)`)

func (tr *trial) secretIn(config string) string {
	tr.Helper()
	found := joinSecret.FindStringSubmatch(config)
	if found == nil {
		tr.Fatal("the Ignition config has no join secret")
	}
	return found[1]
}

// opens returns nil if the configuration server of a host answers so to who asks for the
// configuration of workers with a join secret. The secret stands in no command line.
func (tr *trial) opens(host, secret, answer string) error {
	root, err := tr.Lab.Root(tr.Context(), tr.Power, host)
	if err != nil {
		return err
	}
	const header = "/root/life-join-secret"
	if err := os.WriteFile(root+header, []byte("Authorization: Bearer "+secret+"\n"), 0o600); err != nil {
		return err
	}
	at := net.JoinHostPort(tr.Address(host, lab.V4).String(), fmt.Sprint(model.ConfigServerPort))
	got, err := tr.Sh(tr.Context(), host, "curl --silent --insecure --head --max-time 5 --output /dev/null --write-out '%{http_code}' --header @"+header+" https://"+at+"/config/worker; rm "+header)
	if err == nil && got != answer {
		err = fmt.Errorf("%s answers %s, want %s", host, got, answer)
	}
	return err
}
