package controlplane

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/agent/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/apiserver"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// keyrings plays a host with a key file, its API server, and the cluster.
type keyrings struct {
	*keyring
	t      *testing.T
	wish   string
	at     string // when the wish was written, empty if it does not say
	loaded string // the digest that the API server has
	asked  int    // how often it was asked for that
	said   []string
	away   error
}

func (k *keyrings) ConfigMap(_ context.Context, namespace, name string) (map[string]string, error) {
	if namespace != "kube-system" || name != "holdfast-encryption" {
		k.t.Errorf("it asks for %s/%s", namespace, name)
	}
	if k.wish == "" {
		return nil, k.away
	}
	return map[string]string{"keys": k.wish, "rewritten": "1", "at": k.at}, k.away
}

func (k *keyrings) Annotate(_ context.Context, node, name, value string) error {
	k.said = append(k.said, node+" "+name+"="+value)
	return nil
}

func (k *keyrings) LoadedEncryption(context.Context) (string, error) {
	k.asked++
	return k.loaded, nil
}

func newKeyring(t *testing.T) *keyrings {
	t.Helper()
	k := &keyrings{t: t}
	k.keyring = &keyring{
		root: t.TempDir(), secret: []byte("0123456789abcdef0123456789abcdef"), node: "cp-1", log: quietLog,
		open: func() (keyAPI, error) { return k, nil },
	}
	k.put(1)
	return k
}

func (k *keyrings) put(numbers ...int) {
	k.t.Helper()
	f, err := apiserver.Encryption(k.secret, numbers)
	if err == nil {
		_, err = host.WriteFiles(k.root, []state.File{f})
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *keyrings) file() (numbers []int, digest string) {
	k.t.Helper()
	data, err := os.ReadFile(filepath.Join(k.root, apiserver.EncryptionPath))
	if err == nil {
		numbers, err = apiserver.Numbers(data)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return numbers, fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

func (k *keyrings) look() {
	k.t.Helper()
	if err := k.step(k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
}

func TestAHostTakesAWishInAndSaysSoOnceItsAPIServerHasIt(t *testing.T) {
	k := newKeyring(t)
	_, k.loaded = k.file()
	k.look()
	if want := []string{"cp-1 holdfast.io/encryption=1"}; !slices.Equal(k.said, want) {
		t.Fatalf("nobody wished anything: %q", k.said)
	}
	k.wish = "1,2"
	k.look()
	numbers, digest := k.file()
	if !slices.Equal(numbers, []int{1, 2}) || len(k.said) != 1 {
		t.Fatalf("the file has %v, and it said %q before its API server looked", numbers, k.said)
	}
	k.look()
	k.loaded = digest
	k.look()
	if len(k.said) != 2 || k.said[1] != "cp-1 holdfast.io/encryption=1,2" {
		t.Fatalf("it said %q", k.said)
	}
	asked := k.asked
	for range tellAnew - 1 {
		k.look()
	}
	if len(k.said) != 2 || k.asked != asked {
		t.Errorf("it says the same again, %d times asked", k.asked-asked)
	}
	k.look()
	if len(k.said) != 3 || k.asked != asked {
		t.Errorf("a node that is made anew is not told: %q", k.said)
	}
}

// A key file that was put back, from a copy of the host say, gets the wanted
// keys. So does the file of a host that joins with older keys, and of one whose
// etcd was restored from an old snapshot, because the snapshot holds the wanted
// keys. The host may have written with the older one: it keeps that for reading, over
// each look, until all can read it and everything is rewritten.
func TestAHostThatWasAwayCatchesUp(t *testing.T) {
	for _, older := range [][]int{{1}, {1, 2}} {
		k := newKeyring(t)
		k.put(older...)
		for _, step := range []struct {
			wish string
			want []int
			says string
		}{{"2", []int{2, 1}, "2,1 kept"}, {"2", []int{2, 1}, ""}, {"2,1", []int{2, 1}, "2,1"}, {"2", []int{2}, "2"}} {
			k.wish, k.said = step.wish, nil
			k.look()
			var numbers []int
			numbers, k.loaded = k.file()
			k.look()
			if !slices.Equal(numbers, step.want) || step.says != "" && !slices.Equal(k.said, []string{"cp-1 holdfast.io/encryption=" + step.says}) {
				t.Errorf("%v, wished %s: the file has %v, and it says %q", older, step.wish, numbers, k.said)
			}
		}
	}
}

// TestARotationOfKeysThatIsUnderWayIsAMetric: from its last step on until the old key is dropped, and
// where this host keeps a key. It stays as it is while the API does not answer.
func TestARotationOfKeysThatIsUnderWayIsAMetric(t *testing.T) {
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	k := newKeyring(t)
	k.gauge, k.at = &rotation.Gauge{}, at.Format(time.RFC3339)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(k.gauge)
	for i, step := range []struct {
		wish, at string
		away     error
		want     map[string]float64
	}{
		{"", "", nil, map[string]float64{}},
		{"1", k.at, nil, map[string]float64{}},
		{"1,2", k.at, nil, map[string]float64{"encryption-key": float64(at.Add(2 * time.Hour).Unix())}},
		{"1,2", k.at, errors.New("no answer"), map[string]float64{"encryption-key": float64(at.Add(2 * time.Hour).Unix())}},
		{"2,1", "", nil, map[string]float64{"encryption-key": 0}},
		{"2", k.at, nil, map[string]float64{}},
		{"3", k.at, nil, map[string]float64{"encryption-key": float64(at.Add(2 * time.Hour).Unix())}},
	} {
		k.wish, k.at, k.away = step.wish, step.at, step.away
		if err := k.step(t.Context()); (err != nil) != (step.away != nil) {
			t.Fatal(i, err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		if !maps.Equal(got, step.want) {
			t.Errorf("%d, wished %q: %v, want %v", i, step.wish, got, step.want)
		}
	}
}

func TestAFileThatSomebodyChangedOrTookAwayIsAsItWas(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"taken away": os.Remove,
		"emptied":    func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"another's":  func(path string) error { return os.WriteFile(path, []byte("kind: EncryptionConfiguration\n"), 0o600) },
		"readable":   func(path string) error { return os.Chmod(path, 0o644) },
	} {
		k := newKeyring(t)
		_, digest := k.file()
		k.wish = "1"
		path := filepath.Join(k.root, apiserver.EncryptionPath)
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		k.look()
		info, err := os.Stat(path)
		if _, now := k.file(); err != nil || now != digest || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", name, err)
		}
	}
	k := newKeyring(t) // nobody asked for keys: nothing says which ones the file had
	if err := os.Remove(filepath.Join(k.root, apiserver.EncryptionPath)); err != nil {
		t.Fatal(err)
	}
	if err := k.step(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestWithoutAnAPITheKeysStay(t *testing.T) {
	k := newKeyring(t)
	k.away = errors.New("no answer")
	if err := k.step(t.Context()); err == nil {
		t.Error("it is no trouble")
	}
	if numbers, _ := k.file(); !slices.Equal(numbers, []int{1}) {
		t.Errorf("the file has %v", numbers)
	}
}

func TestAWishThatTakesEncryptionAwayIsRefused(t *testing.T) {
	for _, wish := range []string{"0", "0,1", "1,1", "none"} {
		k := newKeyring(t)
		k.wish = wish
		if err := k.step(t.Context()); err == nil || !strings.Contains(err.Error(), "keys") {
			t.Errorf("%s: %v", wish, err)
		}
		if numbers, _ := k.file(); !slices.Equal(numbers, []int{1}) {
			t.Errorf("%s: the file has %v", wish, numbers)
		}
	}
}

func TestTheKeysOfAHostAreThoseOfItsFile(t *testing.T) {
	id := sitetest.New(t, sitetest.TwoDual).Identity
	k := newKeyring(t)
	k.put(4, 3)
	if got := presentKeys(k.root, id); !slices.Equal(got, []int{4, 3}) {
		t.Errorf("%v", got)
	}
	if got := presentKeys(t.TempDir(), id); !slices.Equal(got, id.EncryptionKeys) {
		t.Errorf("before there is a file: %v", got)
	}
}
