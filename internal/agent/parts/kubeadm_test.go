package parts

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// The versions of kubeadm's configuration in both releases.
var olderVersions, newerVersions = parts.Versions{Kubernetes: "v1.35.9", EtcdTag: "3.6.1-0"}, parts.Versions{Kubernetes: "v1.36.3", EtcdTag: "3.6.14-0"}

// installed makes kubeadm's configuration, and returns what it says, and what deletes it.
func installed(t *testing.T, api *apitest.API) (says func() string, gone func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeadm.yaml")
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + parts.KubeadmName + ", namespace: " + parts.KubeadmNamespace + "}\ndata:\n  other: stays\n" +
		"  " + parts.KubeadmKey + ": |\n    etcd: {local: {dataDir: /var/lib/etcd, imageTag: 3.5.0-0}}\n    kubernetesVersion: v1.34.0\n"
	must(t, os.WriteFile(path, []byte(text), 0o600))
	api.Kubectl(t, "apply", "--filename", path)
	at := []string{"-n", parts.KubeadmNamespace, "configmap", parts.KubeadmName}
	kubectl := func(verb string, flags ...string) string {
		t.Helper()
		return api.Kubectl(t, slices.Concat([]string{verb}, at, flags)...)
	}
	return func() string { return kubectl("get", "-o", "jsonpath={.data."+parts.KubeadmKey+"}{.data.other}") }, func() { kubectl("delete") }
}

// told is what kubeadm's configuration says of versions.
func told(v parts.Versions) string {
	return "etcd:\n  local:\n    dataDir: /var/lib/etcd\n    imageTag: " + v.EtcdTag + "\nkubernetesVersion: " + v.Kubernetes + "\nstays"
}

// configMaps is an API with the mark and kubeadm's configuration, nil if somebody deleted it.
type configMaps struct {
	API
	mark, kubeadm map[string]string
	writes        int
	// taken is true once another program has begun.
	taken bool
}

func (c *configMaps) Mark(_ context.Context, _, name string) (kube.Mark, error) {
	if name == parts.KubeadmName {
		return kube.Mark{Data: c.kubeadm}, nil
	}
	return kube.Mark{Data: c.mark}, nil
}

func (c *configMaps) PutMark(_ context.Context, m kube.Mark, data map[string]string) (kube.Mark, error) {
	switch _, is := data[parts.KubeadmKey]; {
	case maps.Equal(m.Data, data):
	case is:
		c.kubeadm, c.writes = data, c.writes+1
	default:
		c.mark = data
	}
	return kube.Mark{Data: data}, nil
}

func (c *configMaps) Unchanged(context.Context, kube.Mark) error {
	if c.taken {
		return errors.New("somebody else has written it")
	}
	return nil
}

// TestTheObjectsOfAReleaseMoveTheVersionsOfKubeadmsConfiguration: a control plane that joins years
// later has the images of the present release, and its kubeadm refuses a version of long ago.
func TestTheObjectsOfAReleaseMoveTheVersionsOfKubeadmsConfiguration(t *testing.T) {
	c := &configMaps{kubeadm: map[string]string{"other": "stays", parts.KubeadmKey: "etcd: {local: {dataDir: /var/lib/etcd, imageTag: 3.5.0-0}}\nkubernetesVersion: v1.34.0\n"}}
	next, err := NewBringer(c, pair(t).For(state.RoleMaster).Settled(), newer)
	must(t, err)
	own := parts.Versions{Kubernetes: payload.KubernetesVersion, EtcdTag: payload.ImageTag("etcd")}
	all := own
	all.Arguments = kubeadm.Arguments()
	if diff := cmp.Diff(all, next.Versions); diff != "" || all.Arguments["kube-apiserver"]["shutdown-delay-duration"] == "" {
		t.Errorf("a release brings %+v: %s", next.Versions, diff)
	}
	for _, b := range []*Bringer{{API: c, Digest: newer, Versions: own}, {API: c, Digest: older, Versions: olderVersions}, {API: c, Digest: newer, Versions: own}} {
		for range 2 {
			must(t, b.Bring(t.Context(), parts.Objects))
			if got := c.kubeadm[parts.KubeadmKey] + c.kubeadm["other"]; got != told(b.Versions) {
				t.Errorf("%s\nwant %s", got, told(b.Versions))
			}
		}
	}
	if c.writes != 3 {
		t.Errorf("it was written %d times", c.writes)
	}
	c.taken = true
	before := maps.Clone(c.kubeadm)
	if err := (&Bringer{API: c, Digest: older, Versions: olderVersions}).Bring(t.Context(), parts.Objects); err == nil || !maps.Equal(c.kubeadm, before) {
		t.Errorf("another program has begun: %v, %v", err, c.kubeadm)
	}
}

// TestKubeadmsConfigurationIsNotMadeAndNotGuessed: control planes make one again that was deleted.
func TestKubeadmsConfigurationIsNotMadeAndNotGuessed(t *testing.T) {
	c := &configMaps{}
	b := &Bringer{API: c, Digest: newer, Versions: newerVersions}
	must(t, b.Bring(t.Context(), parts.Objects))
	if c.kubeadm != nil || c.mark[parts.Objects] != newer {
		t.Errorf("%v, %v", c.kubeadm, c.mark)
	}
	c.kubeadm = map[string]string{parts.KubeadmKey: "kubernetesVersion: v1.34.0\n"}
	err := b.Bring(t.Context(), parts.Objects)
	if err == nil || !strings.Contains(err.Error(), "ConfigMap kube-system/kubeadm-config, ClusterConfiguration: it has no etcd.local") || c.mark[parts.Objects] != "" {
		t.Errorf("%v, %v", err, c.mark)
	}
}
