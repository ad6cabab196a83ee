package life_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/decide/rollout"
	"github.com/holdfast/holdfast/test/labsite/load"
)

// rolledWithin bounds a change over three control planes: each is watched for a
// minute, and may be cut off once.
const rolledWithin = 18 * time.Minute

// TestMachineConfigUnderLoad gives control planes a file, a kernel parameter and a
// unit, and changes them; then a file for which they boot, one after the other; and
// takes all back, for which they boot again. A single control plane takes the API with it
// when it boots, and the application if there is no worker: what it tells then is the
// time of that, and that no acknowledged write is lost.
func TestMachineConfigUnderLoad(t *testing.T) {
	play(t, "machine configuration", func(tr *trial) {
		for _, h := range tr.ControlPlanes() {
			tr.movesPods(h)
		}
		since, n := tr.Now(), len(tr.ControlPlanes())
		hosts := cmp.Or(map[int]string{1: "one host", 2: "two hosts"}[n], fmt.Sprintf("%d hosts", n))
		for _, q := range []struct {
			what string
			wish *mcfgv1.MachineConfig
			text string
		}{
			{"a file, a unit and a kernel parameter", good("one"), "one"},
			{"other contents", good("two"), "two"},
			{"a file for which hosts boot", rebooting("three"), "three"},
			{"nothing", nil, ""},
		} {
			began := time.Now()
			if q.wish != nil {
				tr.wish(q.wish)
			} else {
				tr.takeBack()
			}
			tr.rolled(q.text)
			tr.Trial.Took(q.what+" on "+hosts, time.Since(began))
			tr.Logf("%s on %s: %.0f s", q.what, hosts, time.Since(began).Seconds())
			tr.Noticed(q.what, began)
		}
		tr.outages(since)
		tr.nobodyFenced()
		if n == 1 {
			return
		}
		tr.onlyKeptConnectionsEnd(since)
		tr.noWriteGapAbove(busyGap)
	})
}

// So many requests of each thousand may fail. All kept connections of a virtual
// IP end together, when it leaves a host that boots. The API's client loses a few besides:
// its server ends, and on a busy machine balancers hear of that late.
const (
	keptEnd  = 2
	apiLoses = 1
)

// onlyKeptConnectionsEnd checks that no request to the application failed but by the end
// of a kept connection, and that the API's clients lost no more than they may. A kept
// connection ends when the virtual IP leaves a host that boots; its client has to open
// another one.
func (tr *trial) onlyKeptConnectionsEnd(since time.Time) {
	tr.Helper()
	tr.onlyKeptEnd(since, apiLoses)
}

// onlyKeptEnd is onlyKeptConnectionsEnd with another bound for requests to the API on
// connections of their own, but for reads: those wait for an etcd that starts anew.
func (tr *trial) onlyKeptEnd(since time.Time, apiNew int) {
	tr.Helper()
	app, server := tr.Record(application, since, true), tr.Loss(api, since)
	tr.within(application, app, load.Most{Kept: app.PerThousand(keptEnd)})
	tr.within(api, server, mostOfAPI(server, apiNew))
	tr.readsGoOn(since)
}

// mostOfAPI is what the API's client may notice, with a bound of each thousand for requests on
// connections of their own.
func mostOfAPI(l load.Loss, apiNew int) load.Most {
	kept := l.PerThousand(keptEnd)
	return load.Most{New: l.PerThousand(apiNew), Lost: kept, Kept: kept}
}

// within checks that a client noticed no more than it may.
func (tr *trial) within(name string, loss load.Loss, most load.Most) {
	tr.Helper()
	if err := loss.Within(most); err != nil {
		tr.Errorf("%s: %v: %s", name, err, loss)
	}
}

func (tr *trial) node(name string) (*corev1.Node, error) {
	var n corev1.Node
	return &n, tr.API.Get(tr.Context(), client.ObjectKey{Name: name}, &n)
}

// rolled waits until each control plane has the text, or nothing of the
// configuration for an empty one.
func (tr *trial) rolled(text string) {
	tr.Helper()
	tr.settled(fmt.Sprintf("every control plane has %q", text), func(host string) error { return tr.has(host, text) })
}

// settled waits until each control plane says that it has what its pool is to have,
// and has it. has tells the new configuration from the former one, which the pool
// names until the operator has seen the change.
func (tr *trial) settled(what string, has func(host string) error) {
	tr.Helper()
	tr.Eventually(rolledWithin, what, func() error { return tr.atRest(has) })
}

// atRest returns which control plane does not have what its pool is to have.
func (tr *trial) atRest(has func(host string) error) error {
	return tr.restsIn(rollout.Master, tr.ControlPlanes(), has)
}

// restsIn returns which of the hosts of a pool does not have what the pool is to have.
func (tr *trial) restsIn(name string, hosts []string, has func(host string) error) error {
	var pool mcfgv1.MachineConfigPool
	if err := tr.API.Get(tr.Context(), client.ObjectKey{Name: name}, &pool); err != nil {
		return err
	}
	for _, h := range hosts {
		n, err := tr.node(h)
		if err != nil {
			return err
		}
		a, want := n.Annotations, pool.Spec.Configuration.Name
		if a[rollout.CurrentConfig] != want || a[rollout.DesiredConfig] != want || a[rollout.StateOf] != string(rollout.Done) {
			return fmt.Errorf("%s has %s, is to have %s, is %s: %s; the pool is at %s",
				h, a[rollout.CurrentConfig], a[rollout.DesiredConfig], a[rollout.StateOf], a[rollout.ReasonOf], want)
		}
		if err := has(h); err != nil {
			return err
		}
	}
	return nil
}

// has returns how a host differs from the configuration with a text.
func (tr *trial) has(host, text string) error {
	root, err := tr.Lab.Root(tr.Context(), tr.Power, host)
	if err != nil {
		return err
	}
	file, err := os.ReadFile(root + filePath)
	switch {
	case text == "" && err == nil:
		return fmt.Errorf("%s: %s is still there", host, filePath)
	case text == "" && !os.IsNotExist(err):
		return err
	case text == "":
	case err != nil:
		return err
	case string(file) != text+"\n":
		return fmt.Errorf("%s: %s has %q, want %q", host, filePath, file, text)
	}
	out, err := tr.Sh(tr.Context(), host, "systemctl is-active "+unitName+" || true")
	if err != nil {
		return err
	}
	if active := strings.TrimSpace(out) == "active"; active != (text != "") {
		return fmt.Errorf("%s: %s is %s", host, unitName, strings.TrimSpace(out))
	}
	return nil
}

// The parts of the configuration. Readers of filePath open it each time, and hosts boot
// for bootFile.
const (
	filePath = "/etc/motd.d/60-life"
	bootFile = "/etc/life.conf"
	unitName = "life.service"
	mcName   = "60-life"
)

// good is a configuration whose unit reads the file, bad one whose unit fails, and
// rebooting one for which hosts boot, because nobody knows who reads its other file.
func good(text string) *mcfgv1.MachineConfig { return machineConfig(text, reads(text)) }

func bad(text string) *mcfgv1.MachineConfig { return machineConfig(text, "/usr/bin/false") }

func rebooting(text string) *mcfgv1.MachineConfig {
	return machineConfig(text, reads(text), file(bootFile, text+"\n"))
}

func reads(text string) string { return "/usr/bin/grep -q ^" + text + "$ " + filePath }

func file(path, contents string) map[string]any {
	source := "data:;base64," + base64.StdEncoding.EncodeToString([]byte(contents))
	return map[string]any{"path": path, "mode": 0o644, "contents": map[string]any{"source": source}}
}

func machineConfig(text, start string, more ...any) *mcfgv1.MachineConfig {
	unit := "[Unit]\nDescription=Reads a file of the machine configuration\n[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=" +
		start + "\n[Install]\nWantedBy=multi-user.target\n"
	files := []any{file(filePath, text+"\n"), file("/etc/sysctl.d/60-life.conf", "vm.swappiness = 10\n# "+text+"\n")}
	raw, err := json.Marshal(map[string]any{
		"ignition": map[string]any{"version": "3.5.0"},
		"storage":  map[string]any{"files": append(files, more...)},
		"systemd":  map[string]any{"units": []any{map[string]any{"name": unitName, "enabled": true, "contents": unit}}},
	})
	if err != nil {
		panic(err) // cannot happen: it is made of texts
	}
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: mcName, Labels: map[string]string{"machineconfiguration.openshift.io/role": rollout.Master}},
		Spec:       mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}},
	}
}

// wish creates or replaces the configuration.
func (tr *trial) wish(mc *mcfgv1.MachineConfig) {
	tr.Helper()
	tr.Eventually(time.Minute, "the API takes the configuration", func() error {
		var now mcfgv1.MachineConfig
		err := tr.API.Get(tr.Context(), client.ObjectKeyFromObject(mc), &now)
		if apierrors.IsNotFound(err) {
			return tr.API.Create(tr.Context(), mc.DeepCopy())
		}
		if err != nil {
			return err
		}
		now.Spec = mc.Spec
		return tr.API.Update(tr.Context(), &now)
	})
}

// takeBack deletes the configuration.
func (tr *trial) takeBack() {
	tr.Helper()
	mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: mcName}}
	tr.Eventually(time.Minute, "the API deletes the configuration", func() error {
		return client.IgnoreNotFound(tr.API.Delete(tr.Context(), mc))
	})
}
