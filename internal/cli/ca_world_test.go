package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	etcdv1 "github.com/openshift/api/etcd/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/backup"
	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/replace"
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
	// publishes is the authority of which that is.
	publishes decide.Authority
	// info is the kubeconfig of cluster-info, edited what somebody added to what pods of
	// a namespace trust.
	info, edited string
	pods         []corev1.Pod
	// lost has the next write succeed and return an error.
	lost error
	old  keys.Public
	// fresh is the new CA as a host derives it.
	fresh keys.Public
	// pacemaker is its status in the API.
	pacemaker *etcdv1.PacemakerCluster
	// take takes a backup of the site.
	take func(ctx context.Context) error
	// lock is the plan for control planes that is in force, joins the tokens of hosts that
	// are being installed.
	lock  map[string]string
	joins []joining.Token
	// ahead is by how much the clocks of the hosts are.
	ahead time.Duration
	// restored names the wish that an older copy of etcd brought back.
	restored string
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
	info, err := kube.WithAuthorities([]byte("clusters: [{name: '', cluster: {server: https://x}}]\n"), []byte(c.old.Block))
	if err != nil {
		t.Fatal(err)
	}
	c.info = string(info)
	for _, name := range []string{"cp-1", "cp-2", "worker-1"} {
		n := state.Node{Name: name, Ready: true}
		if name != "worker-1" {
			n.Labels = map[string]string{state.LabelControlPlane: ""}
			n = backedUp(n)
		}
		c.nodes = append(c.nodes, n)
		c.has[name] = decide.Report{Trusts: []decide.ID{decide.ID(c.old.ID)}, Signs: decide.ID(c.old.ID), Ends: time.Date(2036, 11, 20, 0, 0, 0, 0, time.UTC)}
	}
	c.publishes = decide.FrontProxyCA
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
		out[i].Annotations = map[string]string{
			state.AnnotationTrust: state.FormatAnnotation(decide.Reports{ControlPlanes: 2, Authorities: all}), backup.Annotation: n.Annotations[backup.Annotation],
		}
	}
	return out, nil
}

// follow has a host do what is wished, once it was asked often enough.
func (c *caSite) follow(host string, w decide.Wish) decide.Report {
	r, before, fresh := c.has[host], decide.ID(c.old.ID), decide.ID(c.fresh.ID)
	r.Of, r.New = w.Name(), fresh
	r.Restored = w.Name() == c.restored
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

func (c *caSite) ConfigMap(_ context.Context, _, name string) (map[string]string, error) {
	switch name {
	case infoConfigMap:
		return map[string]string{infoKey: c.info}, nil
	case replace.LockName:
		return maps.Clone(c.lock), nil
	}
	return map[string]string{c.key(): c.published, "another": "x"}, nil
}

// NodeLastSeen is what a kubelet says that is alive, by a clock that may be ahead.
func (c *caSite) NodeLastSeen(context.Context, string) (time.Time, error) {
	return time.Now().Add(c.ahead - 5*time.Second), nil
}

func (c *caSite) BootstrapTokens(context.Context) ([]joining.Token, error) { return c.joins, nil }

func (c *caSite) Pods(context.Context) ([]corev1.Pod, error) { return c.pods, nil }

// key is the key of what is published.
func (c *caSite) key() string { return extensionKey(c.publishes) }

// ConfigMapsNamed returns what the first host trusts, as a controller manager writes
// it.
func (c *caSite) ConfigMapsNamed(_ context.Context, name string) (map[string]map[string]string, error) {
	text := ""
	for _, id := range c.has["cp-1"].Trusts {
		for _, p := range []keys.Public{c.old, c.fresh} {
			if p.ID == string(id) {
				text += p.Block
			}
		}
	}
	if name != "kube-root-ca.crt" {
		c.t.Errorf("ConfigMaps %s are listed", name)
	}
	return map[string]map[string]string{"kube-system": {"ca.crt": text}, "shop": {"ca.crt": text + c.edited}}, nil
}

func (c *caSite) SwapConfigMapKey(_ context.Context, _, _, key, before, after string) error {
	switch {
	case key == infoKey && before == c.info:
		c.info = after
	case key == c.key() && before == c.published:
		c.published = after
	default:
		return kube.ErrChanged
	}
	return nil
}

// rotate runs the command with answers of an administrator.
func (c *caSite) rotate(a decide.Authority, answers string, change func(*rotateCAFlags)) (out, said string, err error) {
	var o, e bytes.Buffer
	r := caRotation{
		rotateCAFlags: rotateCAFlags{timeout: time.Hour, tokenLife: decide.TokenLife, yes: answers == ""}, cluster: c, authority: a,
		streams: Streams{In: strings.NewReader(answers), Out: &o, Err: &e}, now: time.Now, random: rand.Reader, take: c.take,
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

// answers gives one answer for each question.
type answers []string

func (l *answers) Read(p []byte) (int, error) {
	if len(*l) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*l)[0]+"\n")
	*l = (*l)[1:]
	return n, nil
}

// slowAnswer is an administrator who says yes after something else was done.
type slowAnswer func()

func (s slowAnswer) Read(p []byte) (int, error) {
	s()
	return copy(p, "yes\n"), io.EOF
}

// widens is the lock of a plan that brings a third control plane.
var widens = map[string]string{replace.LockKey: "p1", replace.LockCopy: `{"id":"p1","by":"root","survivor":"cp-1","widens":true,"new":{"name":"cp-3"}}`}

func joins(host string) []joining.Token {
	return []joining.Token{{ID: "abcdef", Host: host, Role: state.RoleMaster, Expires: time.Now().Add(time.Hour)}}
}
