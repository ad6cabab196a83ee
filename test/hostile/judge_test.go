package hostile_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/apiserver"
	"github.com/holdfast/holdfast/internal/testkit/access"
	"github.com/holdfast/holdfast/test/hostile/attack"
)

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// keepIfFailed stores evidence of a part that failed, once the part is over.
func (s *siege) keepIfFailed(t *testing.T, part attack.Part) {
	t.Helper()
	began := time.Now()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir := filepath.Join(s.dir, string(part))
		t.Logf("artefacts: %s", dir)
		if err := s.Keep(context.Background(), dir, began.Add(-time.Minute)); err != nil {
			t.Error(err)
		}
	})
}

// scene holds everything that nobody on a worker may change.
type scene struct {
	at time.Time
	// pods holds the running pods of other hosts, each with what distinguishes
	// a new one.
	pods map[string]string
	// labels holds the labels of all nodes, pins the certificates of BMCs,
	// booted the boots of control planes.
	labels, pins, booted map[string]string
}

func (s *siege) look(t *testing.T) scene {
	t.Helper()
	out := scene{at: time.Now(), pods: s.pods(t), labels: map[string]string{}, pins: map[string]string{}, booted: map[string]string{}}
	var nodes corev1.NodeList
	if err := s.API.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		text, err := json.Marshal([]any{n.UID, n.Labels, n.Spec.Taints, n.Status.Addresses})
		if err != nil {
			t.Fatal(err)
		}
		out.labels[n.Name] = string(text)
	}
	list := s.ControlPlanes()
	for i, h := range list {
		data, err := s.ReadFile(t.Context(), h, state.FencingDir+"/"+list[1-i]+".json")
		if err != nil {
			t.Fatal(err)
		}
		var dev state.FencingDevice
		if err := json.Unmarshal(data, &dev); err != nil || dev.Fingerprint == "" {
			t.Fatalf("%s knows no certificate of the BMC of %s: %v", h, list[1-i], err)
		}
		out.pins[list[1-i]] = dev.Fingerprint
		power, err := s.PowerOf(t.Context(), h)
		if err != nil {
			t.Fatal(err)
		}
		out.booted[h] = fmt.Sprint(power.PID, power.Since)
	}
	return out
}

// pods returns the pods of other hosts that run permanently. A Job's pods end
// by themselves.
func (s *siege) pods(t *testing.T) map[string]string {
	t.Helper()
	var list corev1.PodList
	if err := s.API.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range list.Items {
		if p.Spec.NodeName == worker || p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			continue
		}
		text := string(p.UID)
		for _, c := range p.Status.ContainerStatuses {
			text += fmt.Sprintf(" %s %d", c.Name, c.RestartCount)
		}
		out[p.Namespace+"/"+p.Name+" on "+p.Spec.NodeName] = text
	}
	return out
}

// untouched compares a scene with the current one.
func (s *siege) untouched(t *testing.T, before scene) {
	t.Helper()
	after := s.look(t)
	same(t, "the pod", before.pods, after.pods)
	same(t, "the node", before.labels, after.labels)
	s.atHome(t)
	s.nobodyFell(t, before)
}

// nobodyFell checks that no host was fenced, and that each BMC has the same
// certificate.
func (s *siege) nobodyFell(t *testing.T, before scene) {
	t.Helper()
	after := s.look(t)
	same(t, "the BMC of", before.pins, after.pins)
	same(t, "the life of", before.booted, after.booted)
	for _, h := range s.ControlPlanes() {
		root, err := s.Lab.Root(t.Context(), s.Power, h)
		if err != nil {
			t.Fatal(err)
		}
		records, err := records.Files{Root: root}.Fences()
		if err != nil {
			t.Error(err)
		}
		for _, r := range records {
			if r.Off && r.Time.After(before.at) {
				t.Errorf("%s holds %s to be off, by %s at %s", h, r.Target, r.Action, r.Time)
			}
		}
	}
}

func same(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for name, was := range before {
		if is := after[name]; is != was {
			t.Errorf("%s %s was %s and is %q", what, name, was, is)
		}
	}
}

// atHome checks that clients reach each address at the NIC of its only holder.
func (s *siege) atHome(t *testing.T) {
	t.Helper()
	for _, vip := range slices.Concat(s.Lab.Layout.APIVIPs, s.Lab.Layout.IngressVIPs) {
		s.eventually(t, time.Minute, vip.String()+" is where it belongs", func() error {
			name, err := s.Holder(vip)
			if err != nil {
				return err
			}
			if api := slices.Contains(s.Lab.Layout.APIVIPs, vip); api && name == worker {
				return fmt.Errorf("%s has it", worker)
			}
			h, _ := s.Lab.Layout.Host(name)
			if conn, err := s.Lab.Dial(t.Context(), "tcp", netip.AddrPortFrom(vip, 443).String()); err == nil {
				_ = conn.Close() // dialling is enough to resolve the address
			}
			if at, err := s.neighbour(vip); err != nil || at != h.Machine.MAC {
				return fmt.Errorf("%s has it at %s, and clients send to %q: %w", name, h.Machine.MAC, at, err)
			}
			return nil
		})
	}
}

// neighbour returns the hardware address that the lab's router has for an
// address.
func (s *siege) neighbour(vip netip.Addr) (string, error) {
	ns, err := netns.GetFromName(s.Lab.Layout.Switch())
	if err != nil {
		return "", err
	}
	defer func() { _ = ns.Close() }()
	nl, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return "", err
	}
	defer nl.Close()
	list, err := nl.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		return "", err
	}
	for _, n := range list {
		if a, ok := netip.AddrFromSlice(n.IP); ok && a.Unmap() == vip {
			return n.HardwareAddr.String(), nil
		}
	}
	return "", errors.New("nobody is known there")
}

// recorded checks that each refused request to an API server is in the audit
// log of that control plane, with its answer.
func (s *siege) recorded(t *testing.T, all []attack.Line) {
	t.Helper()
	wanted := 0
	s.eventually(t, 2*time.Minute, "each refused request is in an audit log", func() error {
		seen := map[string]map[string]access.Record{}
		for _, h := range s.ControlPlanes() {
			log, err := s.auditOf(t.Context(), h)
			if err != nil {
				return err
			}
			seen[h] = access.Records(log)
		}
		wanted = 0
		var missing []string
		for _, l := range all {
			if !l.Recorded || l.Got != string(attack.Refused) {
				continue
			}
			wanted++
			if seen[l.To][l.Agent].ResponseStatus.Code != l.Status {
				missing = append(missing, l.String())
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("%d of %d are not, among them %s", len(missing), wanted, strings.Join(missing[:min(3, len(missing))], "; "))
		}
		return nil
	})
	t.Logf("%d refused requests are in the audit logs", wanted)
	if wanted < 200 {
		t.Errorf("only %d requests had to be recorded", wanted)
	}
}

// auditOf returns the audit log of a control plane, with the rotated files that
// are not yet compressed.
func (s *siege) auditOf(ctx context.Context, h string) ([]byte, error) {
	root, err := s.Lab.Root(ctx, s.Power, h)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root+apiserver.AuditDir, "audit*.log"))
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		out = append(out, data...)
	}
	return out, nil
}

// nothingWasTold checks that no account of a BMC is in the files of the worker
// or in the answers that it got, neither plainly nor as in a Secret.
func (s *siege) nothingWasTold(t *testing.T) {
	t.Helper()
	var hush [][]byte
	for _, h := range s.Lab.Layout.Hosts {
		account := h.BMC.Username + ":" + h.BMC.Password
		hush = append(hush, []byte(h.BMC.Password), []byte(base64.StdEncoding.EncodeToString([]byte(h.BMC.Password))), []byte(base64.StdEncoding.EncodeToString([]byte(account))))
	}
	root, err := s.Lab.Root(t.Context(), s.Power, worker)
	if err != nil {
		t.Fatal(err)
	}
	looked, loot := 0, 0
	for _, dir := range append(slices.Clone(roots), "/var/log", den) {
		_ = filepath.WalkDir(root+dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // what is gone meanwhile tells nobody
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return nil //nolint:nilerr // as above
			}
			looked++
			if strings.HasPrefix(d.Name(), "loot-") {
				loot += len(data)
			}
			for _, secret := range hush {
				if bytes.Contains(data, secret) {
					t.Errorf("%s of %s has the account of a BMC", strings.TrimPrefix(path, root), worker)
				}
			}
			return nil
		})
	}
	t.Logf("%d files of %s, %d bytes of what he was told: no account of a BMC", looked, worker, loot)
	if loot == 0 {
		t.Error("nothing of what he was told was kept")
	}
}

// lookEvery is the interval at which the place of an address is read.
const lookEvery = 50 * time.Millisecond

// watching records the holders of the API's addresses.
type watching struct {
	end  context.CancelFunc
	all  sync.WaitGroup
	seen map[string]bool
}

func (s *siege) watch(t *testing.T) *watching {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	w := &watching{end: end, seen: map[string]bool{}}
	w.all.Go(func() {
		for ctx.Err() == nil {
			for _, vip := range s.Lab.Layout.APIVIPs {
				w.seen[fmt.Sprint(vip, " on ", s.Lab.Holders(vip))] = true
			}
			_ = host.Sleep(ctx, lookEvery)
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *watching) stop() {
	w.end()
	w.all.Wait()
}

// neverMoved fails if an address was in more than one place.
func (w *watching) neverMoved(t *testing.T) {
	t.Helper()
	places := map[string]string{}
	for place := range w.seen {
		vip, _, _ := strings.Cut(place, " ")
		if was, ok := places[vip]; ok {
			t.Errorf("%s, and %s", was, place)
		}
		places[vip] = place
	}
	t.Logf("%v", places)
}
