package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// keyedCluster simulates control planes that follow the key, except those that
// are deaf or away.
type keyedCluster struct {
	nodes  []state.Node
	secret map[string][]byte
	err    error
	unread error
	deaf   map[string]bool
	away   map[string]bool
	own    []byte
	// former is the key that those who are deaf go by.
	former []byte
}

func (c *keyedCluster) Nodes(context.Context) ([]state.Node, error) { return c.nodes, c.err }

func (c *keyedCluster) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	if namespace != "kube-system" || name != "holdfast-join-key" {
		return nil, errors.New("another Secret")
	}
	return c.secret, c.unread
}

func (c *keyedCluster) PutSecret(_ context.Context, namespace, name string, data map[string][]byte) error {
	if namespace != "kube-system" || name != "holdfast-join-key" {
		return errors.New("another Secret")
	}
	c.secret = data
	return nil
}

func (c *keyedCluster) ask(_ context.Context, _ *site.Site, address, token string) (bool, error) {
	if c.away[address] {
		return false, errors.New("no route to host")
	}
	key := c.own
	if c.deaf[address] {
		key = c.former
	} else if c.secret != nil {
		key = c.secret["key"]
	}
	_, err := jointoken.Read(key, token, jointoken.Config, time.Now())
	return err == nil, nil
}

func newKeyRotation(t *testing.T) (*joinKeyRotation, *keyedCluster, *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, installer.ConfigFile), []byte(sitetest.TwoDual), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runLine(t, "create", "ignition-configs", "--dir", dir); code != ExitOK {
		t.Fatal(errs)
	}
	s, err := (&installer.Installer{Dir: dir}).Made()
	if err != nil {
		t.Fatal(err)
	}
	host := func(name, address string, label string) state.Node {
		return state.Node{Name: name, Labels: map[string]string{label: ""}, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
	}
	c := &keyedCluster{own: s.Identity.JoinKey, former: s.Identity.JoinKey, nodes: []state.Node{
		host("cp-1", "10.98.0.11", state.LabelControlPlane), host("cp-2", "10.98.0.12", state.LabelControlPlane), host("worker-1", "10.98.0.21", state.LabelWorker),
	}}
	var out bytes.Buffer
	return &joinKeyRotation{
		rotateKeyFlags: rotateKeyFlags{dir: dir, timeout: 10 * time.Millisecond},
		in:             newInstaller(Streams{Out: &out, Err: &out}, dir), out: &out, now: time.Now,
		open: func(*site.Site) (joinKeyCluster, error) { return c, nil }, ask: c.ask,
	}, c, &out
}

// key returns the key of the install directory.
func (r *joinKeyRotation) key(t *testing.T) []byte {
	t.Helper()
	s, err := r.in.Made()
	if err != nil {
		t.Fatal(err)
	}
	return s.Identity.JoinKey
}

func TestARotationEndsAllJoinSecrets(t *testing.T) {
	r, c, out := newKeyRotation(t)
	before := r.key(t)
	c.away = map[string]bool{"10.98.0.12:22623": true}
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := r.key(t)
	if bytes.Equal(before, after) || !bytes.Equal(after, c.secret["key"]) || len(after) < jointoken.MinKeyBytes {
		t.Error("cluster and directory have no new key together")
	}
	for _, want := range []string{
		"the key for join secrets was replaced, in the cluster and in " + r.dir,
		"cp-1: refuses secrets of the old key\n", "cp-2: not asked: no route to host\n",
		"worker.ign: no longer valid\n", "holdfast create join-config --dir " + r.dir,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "worker-1") || strings.Contains(out.String(), "bootstrap") {
		t.Errorf("it speaks of others:\n%s", out)
	}
	if _, _, err := r.in.JoinConfig(state.RoleWorker, "", time.Hour); err != nil {
		t.Errorf("the next pointer: %v", err)
	}
}

func TestADryRunOfARotationChangesNothing(t *testing.T) {
	r, c, out := newKeyRotation(t)
	r.dryRun, r.output = true, "json"
	before := r.key(t)
	if err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(before, r.key(t)) || c.secret != nil {
		t.Error("the key is another one")
	}
	var got rotatedKey
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Changed || len(got.ControlPlanes) != 2 || got.ControlPlanes[0].Takes == nil || !*got.ControlPlanes[0].Takes || len(got.Void) != 2 {
		t.Errorf("%+v", got)
	}
}

func TestAControlPlaneThatTakesOldSecretsIsNamed(t *testing.T) {
	r, c, out := newKeyRotation(t)
	c.deaf = map[string]bool{"10.98.0.12:22623": true} // like an agent of an older build
	err := r.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "cp-2 still accepts old secrets") || !strings.Contains(out.String(), "cp-2: accepts secrets of the old key") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAClusterThatHasAnotherKeyThanTheDirectoryIsAskedByItsOwn: the replacement of a host changes the key in the
// cluster alone, and everybody refuses a secret of the directory's long before the command.
func TestAClusterThatHasAnotherKeyThanTheDirectoryIsAskedByItsOwn(t *testing.T) {
	for _, dry := range []bool{false, true} {
		r, c, out := newKeyRotation(t)
		r.dryRun, c.former = dry, bytes.Repeat([]byte("p"), jointoken.MinKeyBytes)
		c.secret, c.deaf = map[string][]byte{"key": c.former}, map[string]bool{"10.98.0.12:22623": true}
		err := r.run(t.Context())
		if !strings.Contains(out.String(), "cp-2: accepts secrets of the old key") || (err == nil) != dry {
			t.Errorf("dry %t: %v\n%s", dry, err, out)
		}
		if strings.Contains(out.String(), "cp-1: accepts") != dry {
			t.Errorf("dry %t:\n%s", dry, out)
		}
	}
}

func TestARotationThatFailsChangesNothing(t *testing.T) {
	r, c, _ := newKeyRotation(t)
	before := r.key(t)
	c.err = errors.New("no API")
	if err := r.run(t.Context()); err == nil || c.secret != nil || !bytes.Equal(before, r.key(t)) {
		t.Errorf("got %v", err)
	}
	c.err, c.unread = nil, errors.New("forbidden")
	if err := r.run(t.Context()); err == nil || c.secret != nil || !bytes.Equal(before, r.key(t)) {
		t.Errorf("the key in force cannot be read: %v", err)
	}
	c.unread = nil
	r.open = func(*site.Site) (joinKeyCluster, error) { return &refusing{c}, nil }
	if err := r.run(t.Context()); err == nil || !bytes.Equal(before, r.key(t)) {
		t.Errorf("the cluster refuses the key: %v", err)
	}
}

type refusing struct{ *keyedCluster }

func (refusing) PutSecret(context.Context, string, string, map[string][]byte) error {
	return errors.New("forbidden")
}

func TestARotationNeedsADirectoryThatWasMade(t *testing.T) {
	if code, _, errs := runLine(t, "join-secret", "rotate", "--dir", t.TempDir()); code != ExitUsage || !strings.Contains(errs, "nothing was made in") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if code, _, errs := runLine(t, "join-secret", "rotate", "--timeout", "0s"); code != ExitUsage || !strings.Contains(errs, "--timeout 0s: must be positive") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
