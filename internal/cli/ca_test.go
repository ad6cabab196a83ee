package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	decide "github.com/holdfast/holdfast/internal/decide/rotation"
	"github.com/holdfast/holdfast/internal/model/state"
)

// caSite simulates a cluster whose hosts do what is wished when it is their turn,
// after a while.
type caSite struct {
	t     *testing.T
	wish  map[string][]byte
	nodes []state.Node
	has   map[string]decide.Report
	// lag is the number of readings until a host has done what is wished.
	lag, looks int
	phases     []string
	tokens     []kube.TokenSecret
	published  string
	// lost has the next write succeed and return an error.
	lost error
	old  keys.Public
	// fresh is the new CA as a host derives it.
	fresh keys.Public
	// pacemaker is its status in the API.
	pacemaker *etcdv1.PacemakerCluster
}

func newCASite(t *testing.T) *caSite {
	t.Helper()
	id, err := keys.Generate(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := keys.DeriveCA(id.FrontProxyCA.Cert, make([]byte, 32), make([]byte, 32), "x", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	publics, err := keys.Publics(id.FrontProxyCA.Cert + ca.Cert)
	if err != nil {
		t.Fatal(err)
	}
	c := &caSite{t: t, wish: map[string][]byte{}, has: map[string]decide.Report{}, lag: 2, old: publics[0], fresh: publics[1], published: publics[0].Block}
	c.pacemaker = pairStatus(metav1.ConditionTrue)
	for _, name := range []string{"cp-1", "cp-2"} {
		c.nodes = append(c.nodes, state.Node{Name: name, Ready: true, Labels: map[string]string{state.LabelControlPlane: ""}})
		c.has[name] = decide.Report{Trusts: []decide.ID{decide.ID(c.old.ID)}, Signs: decide.ID(c.old.ID), Ends: time.Date(2036, 11, 20, 0, 0, 0, 0, time.UTC)}
	}
	c.nodes = append(c.nodes, state.Node{Name: "worker-1", Ready: true})
	return c
}

// pairStatus is Pacemaker's status of two hosts that are whole, but for one condition
// of cp-2.
func pairStatus(online metav1.ConditionStatus) *etcdv1.PacemakerCluster {
	well := func(kinds ...string) []metav1.Condition {
		var out []metav1.Condition
		for _, kind := range kinds {
			out = append(out, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
		}
		return out
	}
	var nodes []etcdv1.PacemakerClusterNodeStatus
	for _, name := range []string{"cp-1", "cp-2"} {
		nodes = append(nodes, etcdv1.PacemakerClusterNodeStatus{
			NodeName: name, Conditions: well(etcdv1.NodeOnlineConditionType, etcdv1.NodeFencingAvailableConditionType, pacemakerstatus.FencingProven),
			Resources: []etcdv1.PacemakerClusterResourceStatus{{Name: etcdv1.PacemakerClusterResourceNameEtcd, Conditions: well(etcdv1.ResourceHealthyConditionType)}},
		})
	}
	nodes[1].Conditions[0].Status = online
	return &etcdv1.PacemakerCluster{Status: etcdv1.PacemakerClusterStatus{
		Nodes: &nodes, Conditions: well(pacemakerstatus.Redundant, pacemakerstatus.FencingEnabled, etcdv1.ClusterInServiceConditionType),
	}}
}

// PacemakerCluster is always fresh.
func (c *caSite) PacemakerCluster(context.Context) (*etcdv1.PacemakerCluster, error) {
	if c.pacemaker != nil {
		c.pacemaker.Status.LastUpdated = metav1.Now()
	}
	return c.pacemaker, nil
}

func (c *caSite) Nodes(context.Context) ([]state.Node, error) {
	c.looks++
	out := slices.Clone(c.nodes)
	for i, n := range out {
		own, there := c.has[n.Name]
		if !there {
			continue
		}
		all := make(map[decide.Authority]decide.Report)
		for _, a := range decide.Authorities() {
			r := own
			if w, err := decide.ParseWish(c.wish[string(a)]); err == nil && w.Phase != "" {
				r = c.follow(n.Name, w)
			}
			all[a] = r
		}
		out[i].Annotations = map[string]string{state.AnnotationTrust: state.FormatAnnotation(decide.Reports{ControlPlanes: 2, Authorities: all})}
	}
	return out, nil
}

// follow has a host do what is wished, once it was asked often enough.
func (c *caSite) follow(host string, w decide.Wish) decide.Report {
	r, before, fresh := c.has[host], decide.ID(c.old.ID), decide.ID(c.fresh.ID)
	r.Of, r.New = w.Name(), fresh
	if w.Turn == host && c.looks > c.lag {
		switch w.Phase {
		case decide.Trust:
			r.Trusts = []decide.ID{before, fresh}
			c.published = c.old.Block + c.fresh.Block
		case decide.Sign:
			r.Signs = fresh
		case decide.Drop:
			r.Trusts = []decide.ID{fresh}
		case decide.Done:
		}
	}
	c.has[host] = r
	return r
}

func (c *caSite) Secret(context.Context, string, string) (map[string][]byte, error) {
	return maps.Clone(c.wish), nil
}

func (c *caSite) SwapSecretKey(_ context.Context, _, _, key string, before, after []byte) error {
	if !bytes.Equal(c.wish[key], before) {
		return kube.ErrChanged
	}
	w, err := decide.ParseWish(after)
	if err != nil {
		c.t.Error(err)
	}
	c.wish[key], c.looks = after, 0
	c.phases = append(c.phases, strings.TrimSpace(fmt.Sprintf("%s %s", w.Phase, w.Turn)))
	lost := c.lost
	c.lost = nil
	return lost
}

func (c *caSite) TokenSecrets(context.Context) ([]kube.TokenSecret, error) { return c.tokens, nil }

func (c *caSite) ConfigMap(context.Context, string, string) (map[string]string, error) {
	return map[string]string{extensionKey: c.published, "client-ca-file": "x"}, nil
}

func (c *caSite) SwapConfigMapKey(_ context.Context, _, _, key, before, after string) error {
	if key != extensionKey || before != c.published {
		return kube.ErrChanged
	}
	c.published = after
	return nil
}

// rotate runs the command with answers of an administrator.
func (c *caSite) rotate(a decide.Authority, answers string, change func(*rotateCAFlags)) (out, said string, err error) {
	var o, e bytes.Buffer
	r := caRotation{
		rotateCAFlags: rotateCAFlags{timeout: time.Hour, tokenLife: tokenLife, yes: answers == ""}, cluster: c, authority: a,
		streams: Streams{In: strings.NewReader(answers), Out: &o, Err: &e}, now: time.Now, random: rand.Reader,
	}
	if change != nil {
		change(&r.rotateCAFlags)
	}
	err = r.run(c.t.Context())
	return o.String(), e.String(), err
}

func codeOf(err error) int {
	if coded, ok := errors.AsType[*command.Coded](err); ok {
		return coded.Code
	}
	return -1
}

var wholeCA = []string{"trust cp-1", "trust cp-2", "sign cp-2", "sign cp-1", "sign cp-1", "drop cp-1", "drop cp-2", "done"}

func TestAnAuthorityIsReplacedOneHostAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		out, said, err := c.rotate(decide.FrontProxyCA, "", nil)
		if err != nil || !slices.Equal(c.phases, wholeCA) {
			t.Fatalf("%v %q\n%s", err, c.phases, said)
		}
		if c.published != c.fresh.Block {
			t.Error("the API still publishes the old CA")
		}
		if !strings.Contains(out, "front-proxy-ca: all have the same authority and no other one") {
			t.Errorf("it shows:\n%s", out)
		}
	})
}

// The first run ends until no pod uses an old token, the second one drops the key,
// unless a Secret holds such a token.
func TestAKeyOfTokensIsDroppedWhenNobodyUsesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		c.tokens = []kube.TokenSecret{{Namespace: "shop", Name: "robot", Key: c.old.ID}, {Namespace: "shop", Name: "new", Key: c.fresh.ID}}
		_, _, err := c.rotate(decide.ServiceAccountKey, "", nil)
		if codeOf(err) != command.ExitAttention || !strings.Contains(err.Error(), "run the command again then") {
			t.Fatal(err)
		}
		time.Sleep(24 * time.Hour)
		if _, _, err := c.rotate(decide.ServiceAccountKey, "", nil); codeOf(err) != command.ExitAttention {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		_, _, err = c.rotate(decide.ServiceAccountKey, "", nil)
		if codeOf(err) != command.ExitAttention || !strings.Contains(err.Error(), ": shop/robot.") {
			t.Fatal(err)
		}
		c.tokens = c.tokens[1:]
		if _, _, err := c.rotate(decide.ServiceAccountKey, "", nil); err != nil || !slices.Equal(c.phases, wholeCA) {
			t.Errorf("%v %q", err, c.phases)
		}
	})
}

// Wherever the command is interrupted, the next run finishes that rotation and
// begins no other.
func TestAnInterruptedRotationOfAnAuthorityGoesOn(t *testing.T) {
	for seconds := 1; seconds < 90; seconds += 2 {
		synctest.Test(t, func(t *testing.T) {
			c := newCASite(t)
			_, _, err := c.rotate(decide.FrontProxyCA, "", func(f *rotateCAFlags) { f.timeout = time.Duration(seconds) * time.Second })
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), "run the command again") {
				t.Errorf("%d s: %v", seconds, err)
			}
			if w, _ := decide.ParseWish(c.wish[string(decide.FrontProxyCA)]); !w.Running() {
				return // all but the last reading was done
			}
			if _, _, err = c.rotate(decide.FrontProxyCA, "", nil); err != nil || !slices.Equal(c.phases, wholeCA) {
				t.Errorf("%d s: %v %q", seconds, err, c.phases)
			}
		})
	}
}

// Of two control planes both have to be there for etcd: before it begins, and before
// each further host and phase.
func TestEtcdsCAIsReplacedWhileEtcdCouldDoWithoutEitherHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		c.pacemaker = nil
		if _, _, err := c.rotate(decide.EtcdCA, "", nil); codeOf(err) != command.ExitRefused || !strings.Contains(err.Error(), "Pacemaker's status says nothing of cp-1") {
			t.Fatal(err)
		}
		c.pacemaker = pairStatus(metav1.ConditionFalse)
		if _, _, err := c.rotate(decide.EtcdCA, "", nil); codeOf(err) != command.ExitRefused || !strings.Contains(err.Error(), "etcd could not do without cp-1 now: cp-2 is absent") {
			t.Fatal(err)
		}
		if len(c.phases) > 0 {
			t.Fatalf("it began: %q", c.phases)
		}
		c.pacemaker = pairStatus(metav1.ConditionTrue)
		if _, _, err := c.rotate(decide.EtcdCA, "", func(f *rotateCAFlags) { f.timeout = 8 * time.Second }); err == nil {
			t.Fatal("it is complete at once")
		}
		began := len(c.phases)
		c.pacemaker = pairStatus(metav1.ConditionFalse)
		if _, _, err := c.rotate(decide.EtcdCA, "", func(f *rotateCAFlags) { f.timeout = 10 * time.Minute }); err == nil || !strings.Contains(err.Error(), "cp-2 is absent") || len(c.phases) != began {
			t.Fatalf("%v %q", err, c.phases)
		}
		c.pacemaker = pairStatus(metav1.ConditionTrue)
		if _, _, err := c.rotate(decide.EtcdCA, "", nil); err != nil || !slices.Equal(c.phases, wholeCA) {
			t.Errorf("%v %q", err, c.phases)
		}
	})
}

func TestAWriteWhoseAnswerIsLostBeginsNoSecondRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		c.lost = errors.New("connection reset")
		if _, _, err := c.rotate(decide.FrontProxyCA, "", nil); err != nil || !slices.Equal(c.phases, wholeCA) {
			t.Errorf("%v %q", err, c.phases)
		}
	})
}

func TestARotationOfAnAuthorityIsRefusedOrAskedFor(t *testing.T) {
	for what, c := range map[string]struct {
		answers string
		change  func(*caSite, *rotateCAFlags)
		code    int
		want    string
		phases  int
	}{
		"one is away":          {"", func(c *caSite, _ *rotateCAFlags) { c.nodes[1].Ready = false }, command.ExitRefused, "refused, nothing was changed: cp-2 not ready", 0},
		"one does not report":  {"", func(c *caSite, _ *rotateCAFlags) { delete(c.has, "cp-2") }, command.ExitRefused, "cp-2 does not report its authorities", 0},
		"no":                   {"no\n", func(*caSite, *rotateCAFlags) {}, command.ExitNotConfirmed, "not confirmed", 0},
		"no answer":            {" ", func(*caSite, *rotateCAFlags) {}, command.ExitNotConfirmed, "not confirmed", 0},
		"no to the last phase": {"yes\nno\n", func(*caSite, *rotateCAFlags) {}, command.ExitNotConfirmed, "answer", 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newCASite(t)
			_, _, err := s.rotate(decide.FrontProxyCA, c.answers, func(f *rotateCAFlags) { c.change(s, f) })
			if codeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || len(s.phases) != c.phases {
				t.Errorf("%s: %v after %q", what, err, s.phases)
			}
		})
	}
}

func TestADryRunSaysWhatWouldBeDoneAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCASite(t)
		out, _, err := c.rotate(decide.ServiceAccountKey, "no\n", func(f *rotateCAFlags) { f.dryRun = true })
		if err != nil || len(c.phases) > 0 || !strings.Contains(out, "would replace the authority on cp-1, cp-2, one after the other") {
			t.Errorf("%v %q\n%s", err, c.phases, out)
		}
	})
}

func TestTheAuthoritiesOfAClusterAreShown(t *testing.T) {
	c := newCASite(t)
	var out bytes.Buffer
	if err := showCA(t.Context(), c, &out, "text", time.Now()); err != nil {
		t.Fatal(err)
	}
	id := decide.ID(c.old.ID).Short()
	want := "AUTHORITY            HOST  SIGNS     TRUSTS    ENDS\n"
	for _, a := range decide.Authorities() {
		for _, h := range []string{"cp-1", "cp-2"} {
			want += fmt.Sprintf("%-19s  %s  %s  %s  2036-11-20\n", a, h, id, id)
		}
	}
	want += `service-account-key: all have the same authority and no other one
front-proxy-ca: all have the same authority and no other one
etcd-ca: all have the same authority and no other one
kubernetes-ca: this release cannot replace it
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	c.nodes[1].Ready = false
	if err := showCA(t.Context(), c, &out, "json", time.Now()); codeOf(err) != command.ExitAttention {
		t.Error(err)
	}
}

func TestWhichAuthoritiesAndTimesTheCommandTakes(t *testing.T) {
	good := rotateCAFlags{timeout: time.Minute, tokenLife: time.Hour}
	for name, c := range map[string]struct {
		flags rotateCAFlags
		want  string
	}{
		"service-account-key": {good, ""},
		"front-proxy-ca":      {good, ""},
		"etcd-ca":             {good, ""},
		"kubernetes-ca":       {good, "cannot be replaced yet"},
		"join-key":            {good, "must be service-account-key, front-proxy-ca or etcd-ca"},
	} {
		if _, err := c.flags.check(name); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, f := range []rotateCAFlags{{timeout: 0, tokenLife: time.Hour}, {timeout: time.Minute, tokenLife: time.Minute}} {
		if _, err := f.check("front-proxy-ca"); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
}
